"""What a program became on its target: collectives beside the plan's, and the memory it takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from dtensor.compiler.targets.hlo import hlo_collectives
from dtensor.compiler.targets.target import Target
from dtensor.dialect.mesh import Mesh

# A halo is exchanged by two permutes, one each way.
_HLO_KIND = {"halo_exchange": "collective_permute", "shard_permute": "collective_permute"}
_MEMORY = (
    ("arguments", "argument_size_in_bytes"),
    ("results", "output_size_in_bytes"),
    ("results in the memory of arguments", "alias_size_in_bytes"),
    ("temporaries", "temp_size_in_bytes"),
    ("peak", "peak_memory_in_bytes"),
)
_LOOPS = "A loop of unknown length counts as one turn."


class CountedCollective(Protocol):
    """What is counted of a collective, be it planned or of the HLO."""

    @property
    def kind(self) -> str:
        """`all_gather`, `all_reduce`, ..."""

    @property
    def bytes(self) -> float:
        """Wire bytes per device of one execution."""

    @property
    def trip_count(self) -> int | None:
        """Executions per call of the program; None in a loop of unknown length."""


class CompiledFor(Protocol):
    """What the report needs of a compiled program; `compiler.stages.Compiled` has it."""

    @property
    def target(self) -> Target | None:
        """The machine it was compiled for; None is this one."""

    @property
    def mesh(self) -> Mesh:
        """The mesh it runs on."""

    @property
    def collectives(self) -> Sequence[CountedCollective]:
        """The planned collectives."""

    def as_text(self) -> str:
        """The optimised HLO."""

    def memory_analysis(self) -> Any:
        """XLA's count of bytes."""


def target_report(compiled: CompiledFor) -> str:
    """The collectives of the plan and of the optimised HLO, and the memory of one device.

    Args:
        compiled: a program compiled for any machine.

    Returns:
        Two tables. Operations are counted as they stand in the program, bytes are wire bytes per
        device and call, on a ring.
    """
    planned: Sequence[CountedCollective] = compiled.collectives
    found = hlo_collectives(compiled.as_text(), compiled.mesh.size)
    axes = " x ".join(f"{name}={size}" for name, size in compiled.mesh.axes)
    lines = [f"{compiled.target or 'this machine'}, mesh {axes}", ""]
    lines += _table(_collective_rows(planned, found))
    if any(c.trip_count is None for c in (*planned, *found)):
        lines.append(_LOOPS)
    analysis = compiled.memory_analysis()
    lines += ["", *_table(_memory_rows(analysis, compiled.target))]
    sizes = [getattr(analysis, field, None) or 0 for _, field in _MEMORY]
    if compiled.target is not None and max(sizes) > compiled.target.info.memory_bytes:
        lines.append("A device does not hold that: split more, or use more devices.")
    return "\n".join(lines)


def _collective_rows(
    planned: Iterable[CountedCollective], found: Iterable[CountedCollective]
) -> list[list[str]]:
    plan, hlo = _totals(planned), _totals(found)
    rows = [["collectives", "planned", "bytes", "in the HLO", "bytes"]]
    rows += [_row(kind, plan.get(kind), hlo.get(kind)) for kind in sorted({*plan, *hlo})]
    return [*rows, _row("together", _sum(plan), _sum(hlo))]


def _totals(collectives: Iterable[CountedCollective]) -> dict[str, tuple[int, float]]:
    """Operations and bytes per call of each kind."""
    totals: dict[str, tuple[int, float]] = {}
    for c in collectives:
        kind = _HLO_KIND.get(c.kind, c.kind)
        count, size = totals.get(kind, (0, 0.0))
        times = 1 if c.trip_count is None else c.trip_count
        totals[kind] = (count + 1, size + c.bytes * times)
    return totals


def _sum(totals: dict[str, tuple[int, float]]) -> tuple[int, float]:
    return sum(count for count, _ in totals.values()), sum(size for _, size in totals.values())


def _row(name: str, plan: tuple[int, float] | None, hlo: tuple[int, float] | None) -> list[str]:
    cells = [name]
    for count, size in (plan or (0, 0.0), hlo or (0, 0.0)):
        cells += [str(count), f"{round(size):,}"]
    return cells


def _memory_rows(analysis: Any, target: Target | None) -> list[list[str]]:
    rows = [["memory of one device", "bytes"]]
    for name, field in _MEMORY:
        size = getattr(analysis, field, None)
        rows.append([name, "unknown" if size is None else f"{size:,}"])
    if target is not None:
        rows.append([f"there is, on {target.info.name}", f"{target.info.memory_bytes:,}"])
    return rows


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with the first column to the left and numbers to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return lines
