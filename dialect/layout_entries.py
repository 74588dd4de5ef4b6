"""The entries of a layout: what may stand for a dimension, and what each means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.dim import MATCHED, WHOLE, Dim, canonical_digits
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.mesh import Mesh

UNSHARDED = "unsharded"
MATCH = "match"
OPEN = "?"
_PRIORITY = re.compile(r"(.+)@(\d{1,18})")
REDUCTIONS = ("sum", "max", "min", "prod", "and", "or")


def no_mesh(found: Any) -> str:
    """What is said of something that stands in the place of a mesh."""
    kind = f"{type(found).__module__}.{type(found).__name__}".removeprefix("builtins.")
    instead = (
        "; or give NamedSharding(mesh, spec) for the layout" if kind.startswith("jax.") else ""
    )
    return (
        f"a layout needs a Mesh, got {kind}; write Layout(specs, mesh) with one of create_mesh"
        + instead
    )


class _NoEntry(LayoutError):
    """Something that cannot stand in a layout; its argument is the thing."""


def dims_of(specs: Sequence[Any], mesh: Mesh) -> tuple[Dim, ...]:
    """The dimensions that a list of entries means.

    Raises:
        LayoutError: an entry is none, or names an axis that the mesh lacks.
    """
    dims: list[Dim] = []
    try:
        for spec in specs:
            dims.append(_dim(spec, mesh))
    except _NoEntry as odd:
        raise LayoutError(
            f"layout entry {odd.args[0]!r}, for dimension {len(dims)} in {specs!r}, is neither "
            "UNSHARDED, an axis name nor a tuple of them; a layout has one such entry for each "
            "dimension"
        ) from None
    return tuple(dims)


def _dim(spec: Any, mesh: Mesh) -> Dim:
    if isinstance(spec, Dim):
        digits = canonical_digits(_digit(d, mesh) for d in spec.digits)
        return replace(spec, digits=digits)
    if spec is None or (isinstance(spec, str) and spec == UNSHARDED):
        return WHOLE
    if isinstance(spec, str) and spec == MATCH:
        return MATCHED
    if isinstance(spec, str) and (match := _PRIORITY.fullmatch(spec)):
        return replace(_dim(match[1], mesh), priority=int(match[2]))
    if isinstance(spec, str) and "!" in spec:
        from dtensor.dialect.layout_string import read_spec

        word, *barred = spec.split("!")
        return bar(_dim(word, mesh), [read_spec(axis)[0] for axis in barred], mesh)
    entries = (spec,) if isinstance(spec, AxisRef) else spec
    if isinstance(spec, str):
        from dtensor.dialect.layout_string import read_spec

        entries = (spec,) if spec in mesh or spec.isdigit() else read_spec(spec)
    if not isinstance(entries, tuple | list):
        raise _NoEntry(spec)
    entries = tuple(entries)
    is_open = bool(entries) and entries[-1] == OPEN
    if is_open:
        entries = entries[:-1]
    return Dim(canonical_digits([_digit(entry, mesh) for entry in entries]), is_open)


def bar(dim: Dim, axes: Iterable[Any], mesh: Mesh) -> Dim:
    """An open dimension to which these axes may not be added.

    Raises:
        LayoutError: it is not open, or the mesh has no such axis.
    """
    barred = [_digit(axis, mesh) for axis in axes]
    if not dim.is_open:
        raise LayoutError("axes are kept out of an open dimension only: write '?' before '!'")
    return replace(dim, barred=tuple(sorted(a for a in barred if not isinstance(a, int))))


def _digit(entry: Any, mesh: Mesh) -> AxisRef | int:
    if isinstance(entry, AxisRef):
        whole = mesh.axis_size(entry.name) if entry.name in mesh else 0
        if whole == 0:
            raise LayoutError(_unknown_axis(entry.name, mesh))
        if entry.pre < 1 or entry.size < 1 or whole % (entry.pre * entry.size):
            raise LayoutError(
                f'"{entry.name}":({entry.pre}){entry.size} is not a part of axis '
                f"'{entry.name}', which has {whole} devices"
            )
        return entry
    if isinstance(entry, Integral) and not isinstance(entry, bool):
        if entry < 1:
            raise LayoutError(f"block count {entry} is not positive; give 1 or more")
        return int(entry)
    if not isinstance(entry, str):
        raise _NoEntry(entry)
    if entry == OPEN:
        raise LayoutError("OPEN, '?', stands at the end of a dimension: write ('x', OPEN)")
    if entry not in mesh:
        raise LayoutError(_unknown_axis(entry, mesh))
    return mesh.axis(entry)


def _unknown_axis(name: str, mesh: Mesh) -> str:
    have = ", ".join(f'"{axis}"' for axis in mesh.axis_names) or "none"
    return f'layout names axis "{name}" that mesh @{mesh.symbol} does not have; it has {have}'


def partial_of(
    partial: Mapping[str, Any] | Iterable[tuple[AxisRef, str]], mesh: Mesh
) -> tuple[tuple[AxisRef, str], ...]:
    """Axes over which devices hold parts, each with its reduction.

    Raises:
        LayoutError: there is no such axis or reduction.
    """
    pairs: list[tuple[AxisRef, str]] = []
    if isinstance(partial, Mapping):
        for kind, axes in partial.items():
            if kind in mesh and axes in REDUCTIONS:
                raise LayoutError(
                    f"partial {partial} has its axis first; write {{{axes!r}: {kind!r}}}"
                )
            entries = (axes,) if isinstance(axes, str | AxisRef) else tuple(axes)
            for entry in entries:
                if not isinstance(entry, str | AxisRef):
                    raise LayoutError(f"partial over {entry!r}: give the name of an axis")
                axis = _digit(entry, mesh)
                assert isinstance(axis, AxisRef), "what is no number"
                pairs.append((axis, kind))
    elif isinstance(partial, str) or not isinstance(partial, Iterable):
        raise LayoutError(
            f"partial is {partial!r}; give what a reduction is over, as {{'sum': 'x'}}"
        )
    else:
        pairs = list(partial)
    for _, kind in pairs:
        if kind not in REDUCTIONS:
            raise LayoutError(f"unknown reduction '{kind}'; known are {', '.join(REDUCTIONS)}")
    return joined_parts([pair for pair in pairs if pair[0].size > 1])


def joined_parts(pairs: Iterable[tuple[AxisRef, str]]) -> tuple[tuple[AxisRef, str], ...]:
    """The same axes in order; adjacent parts of one axis with one reduction join."""
    joined: list[tuple[AxisRef, str]] = []
    for axis, kind in sorted(pairs):
        last, same = joined[-1] if joined else (None, "")
        if last and (last.name, same) == (axis.name, kind) and last.pre * last.size == axis.pre:
            joined[-1] = AxisRef(last.name, last.pre, last.size * axis.size), kind
        else:
            joined.append((axis, kind))
    return tuple(joined)


def check_names_used_once(specs: Sequence[Any], mesh: Mesh) -> None:
    """Raise LayoutError if two entries name one axis."""
    # Of axes of one device too, which no digit is left of.
    entries = [entry for spec in specs for entry in (spec if isinstance(spec, tuple) else (spec,))]
    named = [entry for entry in entries if isinstance(entry, str) and entry in mesh]
    for name in dict.fromkeys(named):
        if named.count(name) > 1:
            raise LayoutError(_used_twice(name))


def _used_twice(name: str) -> str:
    return f'layout uses axis "{name}" twice; an axis can split one dimension'


def check_axes_used_once(dims: Sequence[Dim], partial: Sequence[tuple[AxisRef, str]]) -> None:
    """Raise LayoutError if two dimensions, or one and a reduction, share an axis."""
    used: list[AxisRef] = []
    for axis in [*(a for dim in dims for a in dim.axes), *(a for a, _ in partial)]:
        if any(axis.overlaps(other) for other in used):
            raise LayoutError(_used_twice(axis.name))
        used.append(axis)
