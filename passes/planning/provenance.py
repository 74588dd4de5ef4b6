"""Where the layouts of a plan come from: read after the search, when somebody asks."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dtensor.dialect.axes import AxisRef
from dtensor.passes.propagation.places import WHOLE

if TYPE_CHECKING:
    from dtensor.passes.ledger import NodeFacts
    from dtensor.passes.planning.plan import Plan

PlaceSides = tuple[tuple[int, ...], tuple[int, ...]]  # places of operands, places of results


@dataclass(frozen=True)
class Provenance:
    """How one sub-axis reaches the nodes that use it.

    Attributes:
        sub_axis: the sub-axis.
        size: devices of its mesh axis.
        number: its number in the plan's specs.
        plan: the plan.
        facts: the program's nodes and values.
        refused: per node that the sub-axis reached but that cannot use it there, the reason.
    """

    sub_axis: AxisRef
    size: int
    number: int
    plan: Plan
    facts: NodeFacts
    refused: dict[int, str]

    @property
    def axis(self) -> str:
        """The written form of the sub-axis."""
        return self.sub_axis.text(self.size)

    @cached_property
    def labels(self) -> dict[int, PlaceSides]:
        """Per node that uses the sub-axis, the places of its operands and results."""
        found = {}
        for node, strategy in enumerate(self.plan.strategies):
            sides = (
                self._places(self.facts.operands[node], strategy.ins),
                self._places(self.facts.results[node], strategy.outs),
            )
            if any(place != WHOLE for side in sides for place in side):
                found[node] = sides
        return found

    def _places(self, values: Sequence[int], specs: Sequence[int]) -> tuple[int, ...]:
        ranks = [self.facts.ranks[v] for v in values]
        rank = self.plan.specs.rank
        return tuple([rank(r).places[s][self.number] for r, s in zip(ranks, specs, strict=True)])

    @cached_property
    def detours(self) -> frozenset[int]:
        """The refusing nodes that the sub-axis serves in another place."""
        return frozenset(self.refused) & frozenset(self.labels)

    @cached_property
    def parents(self) -> dict[int, int]:
        """Per node that uses the sub-axis, the value through which it was reached; -1: given.

        Breadth first from what is given, so each chain of reasons is a shortest one. A node that
        nothing given leads to starts a chain of its own.
        """
        facts, labels = self.facts, self.labels
        touching: dict[int, list[int]] = {}
        for node in labels:
            for value in dict.fromkeys([*facts.operands[node], *facts.results[node]]):
                touching.setdefault(value, []).append(node)
        found = {node: -1 for node in labels if node in facts.given}
        self._spread(list(found), found, touching, stays=True)
        self._spread(list(found), found, touching, stays=False)
        for node in labels:
            if node not in found:
                found[node] = -1
                self._spread([node], found, touching, stays=False)
        return found

    def _spread(
        self,
        start: Sequence[int],
        found: dict[int, int],
        touching: dict[int, list[int]],
        stays: bool,
    ) -> None:
        """Follow values; with `stays` only those that nobody moves to another place in between."""
        queue = deque(start)
        while queue:
            node = queue.popleft()
            for value, place in self._used(node):
                for other in touching[value]:
                    if other in found:
                        continue
                    if not stays or (value, place) in self._used(other):
                        found[other] = value
                        queue.append(other)

    def _used(self, node: int) -> list[tuple[int, int]]:
        """The values of a node that the sub-axis touches, and where."""
        ins, outs = self.labels[node]
        facts = self.facts
        pairs = zip((*facts.operands[node], *facts.results[node]), (*ins, *outs), strict=True)
        return [(value, place) for value, place in pairs if place != WHOLE]
