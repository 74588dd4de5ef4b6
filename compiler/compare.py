"""`dtensor.compare`: what differs between two plans, at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dtensor.passes.cost.units import quantity
from dtensor.passes.reports.lock import difference

if TYPE_CHECKING:
    from dtensor.compiler.planned import Planned
    from dtensor.compiler.program import ArrayInfo

_SHOWN = 4


def compare(before: Planned, after: Planned) -> str:
    """What differs between two plans, in at most 15 lines; two lines where nothing does.

    Args:
        before: a Lowered or a Compiled.
        after: another one, such as the same function with one layout changed.

    Raises:
        TypeError: one of them is neither.

    Example:
        >>> x = np.ones((4, 8))
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> columns = dtensor.Layout.inner_sharded(mesh, "y", rank=2)
        >>> one, other = [dtensor.jit(jnp.sum, in_layouts=i).lower(x) for i in (rows, columns)]
        >>> print(dtensor.compare(one, other))
        wire bytes: 4 B -> 6 B, 1.5 times
        operations: 16 FLOP -> 8 FLOP, 0.5 times
        memory at the peak: 72 B -> 40 B, 0.556 times
        argument a: [{"x"}, {}] -> [{}, {"y"}]
          - all_reduce over x of f32 scalar, 4 bytes in ...
          + all_reduce over y of f32 scalar, 6 bytes in ...
    """
    check_plans("compare", before, after)
    lines = [
        _numbers("wire bytes", before.wire_bytes, after.wire_bytes, "B"),
        _numbers("operations", before.local_flops, after.local_flops, "FLOP"),
    ]
    if before.memory is not None and after.memory is not None:
        peaks = before.memory.peak_bytes, after.memory.peak_bytes
        lines.append(_numbers("memory at the peak", *peaks, "B"))
    for what, mine, other in zip(
        ("argument", "result"), before.borders(), after.borders(), strict=True
    ):
        lines += _limited(_layouts(what, mine, other), 3 if what == "argument" else 1)
    less, more = difference(before.collectives, after.collectives)
    lines += [f"  - {line}" for line in _limited(less, _SHOWN)]
    lines += [f"  + {line}" for line in _limited(more, _SHOWN)]
    return "\n".join(lines)


def _numbers(what: str, before: float, after: float, unit: str) -> str:
    if before == after:
        return f"{what}: {quantity(before, unit)} in both"
    times = f", {after / before:.3g} times" if before else ""
    return f"{what}: {quantity(before, unit)} -> {quantity(after, unit)}{times}"


def _layouts(what: str, before: Sequence[ArrayInfo], after: Sequence[ArrayInfo]) -> list[str]:
    """The arrays of one name that are laid out in another way."""
    others = {info.name: info for info in after}
    found = []
    for info in before:
        other = others.get(info.name)
        if other is not None and info.layout.short() != other.layout.short():
            found.append(f"{what} {info.name}: {info.layout.short()} -> {other.layout.short()}")
    return found


def _limited(lines: list[str], limit: int) -> list[str]:
    if len(lines) <= limit:
        return lines
    return [*lines[: limit - 1], f"and {len(lines) - limit + 1} more"] if limit > 1 else lines[:1]


def check_plans(where: str, *plans: object) -> None:
    """Raise a TypeError where one of them is no plan."""
    for plan in plans:
        if not hasattr(plan, "wire_bytes"):
            raise TypeError(
                f"{where} takes plans, and got a value of type {type(plan).__name__}; give "
                "step.lower(*args) of each, or what compile() made of it"
            )
