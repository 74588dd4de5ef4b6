"""Which of the lengths that dimensions can become makes the cheapest plan.

A batch of 13 that a layout splits over 2 of 8 devices becomes 14 elements long, which the others do
not divide; of 16 they could have two each. Whether they would, and what that saves, a plan tells.
So it does of a dimension that no layout splits, where one splits another unevenly: where 5 devices
share 197 tokens, attention had better move to a batch of 10 elements than gather for one of 8.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from dtensor.dialect.mlir import ir
from dtensor.passes.base import PassState
from dtensor.passes.cost.units import seconds_text
from dtensor.passes.functions import main_function
from dtensor.passes.propagation.propagate import PropagatePass
from dtensor.passes.propagation.task import read_pins
from dtensor.passes.uneven.components import Freedom, Lengths, lengths_of
from dtensor.passes.uneven.rewrite import Rewriter

_ENOUGH = 0.97  # of what a plan takes: what saves less is not worth more elements
_MOST = 3  # classes that are tried one by one


@dataclass(frozen=True)
class Trial:
    """A plan of a copy of the program.

    Attributes:
        lengths: how long dimensions were made; None if all stayed.
        seconds: what the plan takes.
        cost: the same and what else its search counts.
        module: the copy.
        state: what is known of it, with its plan.
    """

    lengths: Lengths | None
    seconds: float
    cost: float
    module: ir.Module
    state: PassState

    def adopt(self, module: ir.Module, state: PassState) -> None:
        """Let the copy be the program, and the program the copy."""
        one, other = [list(each.body.operations) for each in (module, self.module)]
        for body, operations in ((self.module.body, one), (module.body, other)):
            for op in operations:
                body.append(op)
        state.forget_ir()
        state.ledger, state.graph, state.ahead = (
            self.state.ledger,
            self.state.graph,
            self.state.ahead,
        )


def cheapest(module: ir.Module, state: PassState, least: Lengths, poison: bool) -> Trial:
    """Plan with the least lengths, with all that may be longer so, and if need be with each alone.

    Then with one class that no layout splits: in 19 programs two others were no gain beside it.
    Where some grow beside what divides and stays, first whether they had better not: a part of an
    axis may divide them, or axes move to another dimension for less, and no padding is computed.
    Then, where arguments or results would have another length inside, whether they had better: of
    fields of 512 and 513 rows in a loop all are moved to shards of 65 rows once, not in each trip.

    Args:
        module: the program, which stays as it is.
        state: what is known of it.
        least: the least lengths.
        poison: as the pass has it.
    """
    function = main_function(module)
    graph = state.graph_of(function)
    pins = read_pins(graph, state.meshes)
    first = best = _trial(module, state, least, poison)
    freedom = Freedom()
    for other, enough in _freer(least):
        found = _trial(module, state, lengths_of(graph, pins, other), poison, enough * best.cost)
        if found.seconds < enough * best.seconds:
            first, best, freedom = found, found, other
    taken: Mapping[float, int] = {}

    def take(parts: Mapping[float, int]) -> bool:
        """Take these lengths if a plan then takes less."""
        nonlocal best, taken
        lengths = lengths_of(graph, pins, replace(freedom, parts=parts))
        if lengths is None:  # what would become too long for others to be split as it is
            return False
        found = _trial(module, state, lengths, poison, _ENOUGH * best.cost)
        if found.seconds >= _ENOUGH * best.seconds:
            return False
        best, taken = found, parts
        return True

    longer = {} if first.lengths is None else first.lengths.divisible
    if longer and not take(longer) and 1 < len(longer) <= _MOST:
        for place, parts in longer.items():
            take({place: parts})
    if first.lengths is not None and first.lengths.possible:
        take({**taken, **first.lengths.possible})
    if best is not first:
        best.state.ledger.add(
            "length",
            "dimensions are padded to more than their layouts ask for, so that more devices divide "
            f"them: {seconds_text(best.seconds)} planned and not {seconds_text(first.seconds)}",
            seconds=best.seconds,
        )
    return best


def _freer(least: Lengths) -> Iterator[tuple[Freedom, float]]:
    """What else may stay or be longer, and at most what part of a plan's time it must take."""
    if least.is_beside:
        yield Freedom(may_stay=False), 1
    if least.is_refitted:
        yield Freedom(may_stay=False, may_refit=True), _ENOUGH


def _trial(
    module: ir.Module,
    state: PassState,
    lengths: Lengths | None,
    poison: bool,
    below: float = math.inf,
) -> Trial:
    """A plan with some lengths, or as it is; any, where none costs less than `below`."""
    copy = ir.Module.create(module.operation.location)
    for op in module.body.operations:
        op.operation.clone(ip=ir.InsertionPoint(copy.body))
    apart = replace(state, ledger=state.ledger.copy())
    apart.forget_ir()
    function = main_function(copy)
    graph = apart.read(function)  # whose nodes are those of the program
    if lengths is not None:
        pins = read_pins(graph, state.meshes)
        Rewriter(function, graph, pins, lengths, apart.ledger, poison).run()
    apart.ahead = PropagatePass().plan_ahead(function, apart, below)
    plan = apart.ahead.plan
    return Trial(lengths, plan.seconds, plan.seconds + plan.price, copy, apart)
