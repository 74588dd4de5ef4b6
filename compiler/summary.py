"""What a compiled program costs, at a glance: totals, warnings, and its collectives in groups.

Collectives and records that differ only in numbers, such as those of equal layers, are one line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dtensor.passes.cost.units import quantity, seconds_text
from dtensor.passes.ledger import GATHERED_AGAIN, Ledger
from dtensor.passes.reports.grouping import common, times_text, without_numbers

if TYPE_CHECKING:
    from dtensor.compiler.driver import DriverResult
    from dtensor.passes.reports.cost import Collective

GROUPS = 20  # two lines each: with totals and warnings, a summary fits 60 lines
_WARNINGS = 5
# The gravest first.
_WARNED = ("over_memory", "not_parallel", "fallback", "warning", "moved argument")


@dataclass(frozen=True)
class Group:
    """Collectives of one kind, line and reason.

    Attributes:
        first: index of the first one in the program.
        members: all of them.
        reason: why they are there; a number in which they differ is written `*`.
    """

    first: int
    members: tuple[Collective, ...]
    reason: str

    @property
    def bytes(self) -> float:
        """Wire bytes per device and call; a loop of unknown length counts as one turn."""
        return sum(c.bytes * (c.trip_count or 1) for c in self.members)

    @property
    def seconds(self) -> float:
        """Planned for a call of the program; a loop of unknown length counts as one turn."""
        return sum(c.seconds * (c.trip_count or 1) for c in self.members)


def summary(head: str, result: DriverResult, memory: Any) -> str:
    """The whole program in at most 60 lines.

    Args:
        head: what the program is.
        result: what the passes did.
        memory: XLA's count of bytes; None where it has none.
    """
    lines = [head, f"  {_totals(result)}", *plan_lines(result.ledger)]
    if memory is not None:
        lines.append(f"  {_memory_text(memory)}")
    lines[1:1] = warnings(result.ledger)  # first, since they may be the reason of all the rest
    if result.collectives:
        lines.append("  collectives, most bytes per device and call first:")
    return "\n".join(lines + table(result.collectives, GROUPS))


def warnings(ledger: Ledger) -> list[str]:
    """The gravest warnings, indented, and how many more there are."""
    texts = warning_texts(ledger)
    lines = [f"  {text}" for text in texts[:_WARNINGS]]
    if len(texts) > _WARNINGS:
        lines.append(f"  and {len(texts) - _WARNINGS} more warnings: explain() has them")
    return lines


def warning_texts(ledger: Ledger) -> list[str]:
    """What nobody asked for: work that all devices repeat, ignored annotations, moves.

    Those that differ in numbers only are one line.
    """
    texts: dict[str, list[str]] = {}
    for record in ledger.of_kind(*_WARNED):
        where = f" at {record.location}" if record.location else ""
        text = f"{record.kind}: {record.text}{where}"
        texts.setdefault(without_numbers(text), []).append(text)
    order = {id(group): _WARNED.index(group[0].split(":")[0]) for group in texts.values()}
    groups = sorted(texts.values(), key=lambda group: (order[id(group)] > 0, -len(group)))
    return [f"{times_text(len(group))}{common(group)}" for group in groups]


def groups_of(
    collectives: Sequence[Collective], every: Sequence[Collective] | None = None
) -> list[Group]:
    """The collectives, some of `every` one, in groups; the one with the most bytes first."""
    every = collectives if every is None else every
    wanted = set(map(id, collectives))
    found: dict[tuple[Any, ...], list[int]] = {}
    for index, c in enumerate(every):
        if id(c) not in wanted:
            continue
        pattern = without_numbers(c.reason)
        key = (c.kind, c.mesh_axes, c.dtype, c.shape, c.trip_count, c.location, pattern)
        found.setdefault(key, []).append(index)
    groups = [
        Group(
            indices[0],
            tuple(every[i] for i in indices),
            common([every[i].reason for i in indices]),
        )
        for indices in found.values()
    ]
    return sorted(groups, key=lambda group: (-group.bytes, group.first))


def table(
    collectives: Sequence[Collective], top: int, every: Sequence[Collective] | None = None
) -> list[str]:
    """Two lines for each of the `top` groups with the most bytes, and one for the rest.

    Args:
        collectives: those to tell of.
        top: the largest number of groups.
        every: all of the program, which they are numbered among; None where these are all.
    """
    return _table(groups_of(collectives, every), top, group_lines)


def short_table(
    collectives: Sequence[Collective], top: int, every: Sequence[Collective] | None = None
) -> list[str]:
    """The same with a line for each group."""
    return _table(groups_of(collectives, every), top, lambda group: [_group_line(group)])


def _table(groups: Sequence[Group], top: int, text: Callable[[Group], list[str]]) -> list[str]:
    lines = [line for group in groups[:top] for line in text(group)]
    rest = groups[top:]
    if rest:
        count = sum(len(group.members) for group in rest)
        size = quantity(sum(group.bytes for group in rest), "B")
        seconds = seconds_text(sum(group.seconds for group in rest))
        more = f"{count} more in {len(rest)} group{'s' * (len(rest) > 1)}: explain() has them"
        lines.append(f"  {size:>9}  {seconds:>7}  {more}")
    return lines


def group_lines(group: Group) -> list[str]:
    """Bytes, planned seconds, how many, what and where; and below, the reason."""
    c = group.members[0]
    shape = "x".join(map(str, c.shape)) or "scalar"
    where = f" at {c.location}" if c.location else ""
    return [
        f"  {quantity(group.bytes, 'B'):>9}  {seconds_text(group.seconds):>7}  "
        f"{count_text(group)}{c.kind} over "
        f"{', '.join(c.mesh_axes)} of {c.dtype} {shape}{where}",
        f"{' ' * 22}collective {group.first}: {group.reason or 'no record of why'}",
    ]


def _group_line(group: Group) -> str:
    """The same in one line, without the type: `explain("collective 3")` has that, and more."""
    c = group.members[0]
    where = f" at {c.location}" if c.location else ""
    return (
        f"  {quantity(group.bytes, 'B'):>9}  {seconds_text(group.seconds):>7}  "
        f"{count_text(group)}{c.kind} over {', '.join(c.mesh_axes)}{where}, "
        f"collective {group.first}: {group.reason or 'no record of why'}"
    )


def plan_lines(ledger: Ledger) -> list[str]:
    """How long a call takes as planned, indented; nothing where nothing is sent."""
    records = ledger.of_kind("plan", GATHERED_AGAIN)
    return [f"  {record.text}" for record in records if record.communication]


def _totals(result: DriverResult) -> str:
    count = len(result.collectives)
    size = sum(c.bytes * (c.trip_count or 1) for c in result.collectives)
    again = sum(c.bytes for c in result.collectives if c.trip_count is None)
    more = f"and {quantity(again, 'B')} in each further turn of loops of unknown length, "
    return (
        f"per device and call: {quantity(size, 'B')} on the wire in {count} "
        f"collective{'' if count == 1 else 's'}, {more if again else ''}"
        f"{quantity(result.local_flops, 'FLOP')}"
    )


def _memory_text(memory: Any) -> str:
    def size(field: str) -> str:
        return quantity(getattr(memory, field, 0) or 0, "B")

    reused = getattr(memory, "alias_size_in_bytes", 0)
    place = f" ({size('alias_size_in_bytes')} in the place of arguments)" if reused else ""
    return (
        f"memory of a device: arguments {size('argument_size_in_bytes')}, results "
        f"{size('output_size_in_bytes')}{place}, temporaries {size('temp_size_in_bytes')}"
    )


def count_text(group: Group) -> str:
    """How many there are, and how often a loop repeats them: `2x of 3 turns `; "" for one."""
    trips = group.members[0].trip_count
    turns = " in a loop of unknown length" if trips is None else f" of {trips} turns"
    if trips == 1:
        return times_text(len(group.members))
    return f"{len(group.members)}x{turns} " if len(group.members) > 1 else f"{turns[1:]} "
