"""What a report tells of a program: read from its plan, nothing is computed here a second time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dtensor.compiler.held import Held, held
from dtensor.compiler.summary import Group, groups_of, warning_texts
from dtensor.passes.ledger import GATHERED_AGAIN

if TYPE_CHECKING:
    from dtensor.compiler.planned import Planned
    from dtensor.compiler.program import ArrayInfo
    from dtensor.dialect.mesh import Mesh
    from dtensor.passes.ledger import Ledger
    from dtensor.passes.reports.cost import Collective

_XLA = (
    ("arguments, by XLA", "argument_size_in_bytes"),
    ("results, by XLA", "output_size_in_bytes"),
    ("temporaries, by XLA", "temp_size_in_bytes"),
)


@dataclass(frozen=True)
class Total:
    """One number of a program: its name, its unit, and how much."""

    name: str
    unit: str
    value: float


@dataclass(frozen=True)
class Facts:
    """What a report tells of one program.

    Attributes:
        head: its name and mesh.
        mesh: the mesh.
        totals: what it sends, computes and holds, per device and call.
        warnings: what nobody asked for, the gravest first.
        collectives: every planned collective.
        groups: the same in groups of equal ones, the most bytes first.
        ledger: why.
        args: its arguments.
        results: its results.
        held: what is alive at the peak, the most bytes first.
        peak_bytes: what one device holds at most; None where the plan does not say.
    """

    head: str
    mesh: Mesh
    totals: tuple[Total, ...]
    warnings: tuple[str, ...]
    collectives: tuple[Collective, ...]
    groups: tuple[Group, ...]
    ledger: Ledger
    args: tuple[ArrayInfo, ...]
    results: tuple[ArrayInfo, ...]
    held: tuple[Held, ...]
    peak_bytes: float | None


def facts_of(planned: Planned) -> Facts:
    """What a report tells of a Lowered or a Compiled."""
    result = planned._plan()
    args, results = planned.borders()
    memory = planned.memory
    return Facts(
        planned._source.short(),
        result.mesh,
        tuple(_totals(planned)),
        tuple(warning_texts(result.ledger)),
        result.collectives,
        tuple(groups_of(result.collectives)),
        result.ledger,
        args,
        results,
        () if memory is None else held(memory.tensors, args),
        None if memory is None else memory.peak_bytes,
    )


def _totals(planned: Planned) -> list[Total]:
    """The numbers of `print(compiled)`, and the seconds that the plan takes."""
    result = planned._plan()
    totals = [
        Total("sent", "B", planned.wire_bytes),
        Total("collectives", "", len(result.collectives)),
        Total("operations", "FLOP", planned.local_flops),
    ]
    if planned.memory is not None:
        totals.append(Total("held at the peak, planned", "B", planned.memory.peak_bytes))
    plan = next(iter(result.ledger.of_kind("plan")), None)
    if plan is not None:
        again = sum(record.communication for record in result.ledger.of_kind(GATHERED_AGAIN))
        totals.append(Total("planned to communicate", "s", plan.communication + again))
        totals.append(Total("planned to compute", "s", plan.seconds - plan.communication))
    measured = planned._measured_memory()
    for name, field in _XLA:
        size = getattr(measured, field, None)
        if size is not None:
            totals.append(Total(name, "B", size))
    return totals
