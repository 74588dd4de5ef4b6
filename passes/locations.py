"""Locations: the ids they carry, and the user's line among their frames."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from dtensor.dialect.diagnostics import frames, place_of
from dtensor.dialect.mlir import ir


def tag(location: ir.Location, number: int) -> ir.Location:
    """The location wrapped with an id: `fused<number>[location]`."""
    i64 = ir.IntegerType.get_signless(64, location.context)
    return ir.Location.fused([location], ir.IntegerAttr.get(i64, number), location.context)


def _metadata(location: ir.FusedLoc) -> int | None:
    """The integer that a fused location carries; None if it carries none."""
    try:
        return int(ir.IntegerAttr(location.metadata).value)  # type: ignore[arg-type]
    except (ValueError, TypeError):
        return None


def _inner(location: ir.FusedLoc) -> list[ir.Location]:
    found: list[ir.Location] = list(location.locations)  # type: ignore[arg-type]
    return found


def tagged_id(location: ir.Location) -> int | None:
    """The outermost id that a location carries; None if it carries none."""
    if isinstance(location, ir.FusedLoc):  # as most are, and carry one
        number = _metadata(location)
        if number is not None:
            return number
    return next(_ids(location), None)


def all_ids(location: ir.Location) -> list[int]:
    """Every id that a location carries, outermost first."""
    return list(_ids(location))


def _ids(location: ir.Location) -> Iterator[int]:
    for part in _parts(location, _tagged):
        number = _metadata(part) if isinstance(part, ir.FusedLoc) else None
        if number is not None:
            yield number


def _parts(
    location: ir.Location, inside: Callable[[ir.Location], list[ir.Location]]
) -> Iterator[ir.Location]:
    """A location and what is in it, each once, from the outside in.

    Args:
        location: the location; parts of it may share parts, and stand deep in it.
        inside: the parts of one, in order.
    """
    seen = set()
    left = [location]
    while left:
        part = left.pop()
        key = part.attr  # a location itself has no hash that equal ones share
        if key not in seen:
            seen.add(key)
            yield part
            left += reversed(inside(part))


def _tagged(location: ir.Location) -> list[ir.Location]:
    """What in a location may carry ids: the operation's own parts, and not who called it."""
    if isinstance(location, ir.CallSiteLoc):
        return [location.callee]
    return _inside(location)


def _inside(location: ir.Location) -> list[ir.Location]:
    """What is in a location."""
    if isinstance(location, ir.FusedLoc):
        return _inner(location)
    if isinstance(location, ir.CallSiteLoc):
        return [location.callee, location.caller]
    return [location.child_loc] if isinstance(location, ir.NameLoc) else []


def fused_count(location: ir.Location) -> int:
    """How many operations that were made one a location stands for."""
    is_one = not isinstance(location, ir.FusedLoc) or _metadata(location) is not None
    return 1 if is_one else len(_inner(location))  # type: ignore[arg-type]


def forget_ids(module: ir.Module) -> None:
    """Take the ids out of a module that was read: they speak of another run's ledger."""
    known: dict[ir.Attribute, ir.Location] = {}

    def forget(op: ir.Operation) -> ir.WalkResult:
        if tagged_id(op.location) is not None:
            op.location = _without_ids(op.location, known)
        return ir.WalkResult.ADVANCE

    module.operation.walk(forget)


def _without_ids(location: ir.Location, known: dict[ir.Attribute, ir.Location]) -> ir.Location:
    """The location without ids; `known` are those of parts, by what they were."""
    left = [location]
    while left:
        part = left[-1]
        missing = [each for each in _tagged(part) if each.attr not in known]
        if missing:
            left += missing
        else:
            left.pop()
            known[part.attr] = _rebuilt(part, [known[each.attr] for each in _tagged(part)])
    return known[location.attr]


def _rebuilt(location: ir.Location, inner: list[ir.Location]) -> ir.Location:
    if isinstance(location, ir.FusedLoc):
        metadata = None if _metadata(location) is not None else location.metadata
        return ir.Location.fused(inner, metadata)
    if isinstance(location, ir.CallSiteLoc):
        return ir.Location.callsite(inner[0], [location.caller])
    if isinstance(location, ir.NameLoc):
        return ir.Location.name(location.name_str, inner[0])
    return location


def location_text(location: ir.Location | str) -> str:
    """`train.py:41:7 (via flax/linear.py:271)`: the user's line, and the library's below it.

    A text is the location that was written already.
    """
    if isinstance(location, str):
        return location
    user = place_of(location)
    if user is None:
        return ""
    text = f"{short_path(user.file)}:{user.line}:{user.column}"
    via = next((frame for frame in frames(location) if not frame.is_ours), user)
    if via == user or not via.is_library:
        return text
    return f"{text} (via {short_path(via.file)}:{via.line})"


def function_text(location: ir.Location) -> str:
    """`train.py:loss`, the user's function; the file alone where the function is not known."""
    user = place_of(location)
    if user is None:
        return ""
    name = f":{user.function}" if user.function else ""
    return f"{short_path(user.file)}{name}"


def operation_name(location: ir.Location) -> str:
    """The path of transformations JAX writes, `jit(step)/transpose(jvp())/dot_general`; or ''."""
    names = (part.name_str for part in _parts(location, _inside) if isinstance(part, ir.NameLoc))
    return next((name for name in names if "/" in name), "")


def short_path(file: str) -> str:
    """A file's name, its package folders where it is installed, its folder where that says more."""
    for marker in ("site-packages" + os.sep, "dist-packages" + os.sep):
        if marker in file:
            return file.split(marker, 1)[1]
    name = os.path.basename(file)
    if name in ("__init__.py", "main.py", "model.py", "train.py"):
        return os.path.join(os.path.basename(os.path.dirname(file)), name)
    return name
