"""What one device holds when it holds most: tensors that differ in numbers only, together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dtensor.passes.cost.units import quantity
from dtensor.passes.reports.grouping import common, grouped, times_text, without_numbers

if TYPE_CHECKING:
    from dtensor.compiler.program import ArrayInfo
    from dtensor.passes.reports.memory import MemoryReport, Tensor

_SHOWN = 12  # groups: with a head and a line for the rest, 14 lines


@dataclass(frozen=True)
class Held:
    """Tensors alive at the peak that differ in numbers only.

    Attributes:
        name: what they are.
        count: how many there are.
        bytes: of one device, all of them together.
        location: the user's line; empty for arguments, or where it is not known.
        file: its file; likewise.
    """

    name: str
    count: int
    bytes: float
    location: str
    file: str


def held(tensors: Sequence[Tensor], args: Sequence[ArrayInfo]) -> tuple[Held, ...]:
    """The tensors in groups, arguments by their names; the group with the most bytes first."""

    def name(tensor: Tensor) -> str:
        if tensor.argument is None or tensor.argument >= len(args):
            return str(tensor.name).removesuffix(f" at {tensor.location}")
        info = args[tensor.argument]
        local = "x".join(map(str, info.local_shape)) or "scalar"
        return f"argument {info.name or tensor.argument}: {info.dtype} {local}"

    groups = grouped(tensors, lambda t: (without_numbers(name(t)), t.bytes, t.location, t.file))
    found = [
        Held(
            common([name(tensor) for tensor in group]),
            len(group),
            sum(tensor.bytes for tensor in group),
            group[0].location,
            group[0].file,
        )
        for group in groups
    ]
    return tuple(sorted(found, key=lambda one: -one.bytes))


def memory_lines(report: MemoryReport, args: Sequence[ArrayInfo]) -> list[str]:
    """The peak of one device, and a line for each of the largest groups alive then."""
    lines = [
        f"{quantity(report.peak_bytes, 'B')} at the peak of one device, "
        f"{quantity(report.argument_bytes, 'B')} of them arguments, as planned; alive then:"
    ]
    groups = held(report.tensors, args)
    for one in groups[:_SHOWN]:
        where = f" at {one.location}" if one.location else ""
        lines.append(f"  {quantity(one.bytes, 'B'):>9}  {times_text(one.count)}{one.name}{where}")
    rest = groups[_SHOWN:]
    if rest:
        size = quantity(sum(one.bytes for one in rest), "B")
        groups_left = f"{len(rest)} group{'s' * (len(rest) > 1)}"
        lines.append(f"  {size:>9}  {sum(one.count for one in rest)} more in {groups_left}")
    return lines
