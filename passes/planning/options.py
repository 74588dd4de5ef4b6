"""What a node may choose among: one strategy, what it sends inside, and all of them as arrays.

Priorities that were decided before filter them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dtensor.passes.graph import Graph, Node
from dtensor.passes.planning.work import Work
from dtensor.passes.propagation.labels import Label
from dtensor.passes.sharding.specs import RankSpecs, Specs


class Strategy(NamedTuple):
    """One way to lay a node out.

    Attributes:
        ins: spec of each operand.
        outs: spec of each result.
        split: among how many devices the node's work is divided.
        comm: seconds that the op's algorithm communicates inside, per execution.
        price: seconds that the search counts beside these: of work that is repeated though it could
            be divided, of memory. They are no part of what a plan takes.
    """

    ins: tuple[int, ...]
    outs: tuple[int, ...]
    split: int
    comm: float = 0.0
    price: float = 0.0


Exchange = tuple[tuple[int, ...], float]  # `Traffic.what`, and its seconds


class Computed(NamedTuple):
    """What the algorithm of an op sends in one strategy.

    Attributes:
        comm: its seconds, per execution.
        exchanges: those with which it begins that other ops may share.
    """

    comm: float
    exchanges: tuple[Exchange, ...]


Sides = tuple[tuple[RankSpecs, ...], tuple[RankSpecs, ...]]  # of the operands, of the results


class Options:
    """The strategies of a node, also as arrays: `ins[k][i]` is operand k's spec in strategy i."""

    def __init__(self, strategies: Sequence[Strategy], sides: Sides) -> None:
        self.strategies = tuple(strategies)
        self._sides = sides
        self.index = {s: i for i, s in enumerate(self.strategies)}
        self.ins = _columns([s.ins for s in self.strategies])
        self.outs = _columns([s.outs for s in self.strategies])
        self._share = 1.0 / np.array([s.split for s in self.strategies], float)
        self.extra = np.array([s.comm + s.price for s in self.strategies], float)
        self._distinct: dict[int, NDArray[np.intp]] = {}

    def __len__(self) -> int:
        return len(self.strategies)

    def column(self, slot: int) -> NDArray[np.intp]:
        """The specs of operand `slot`, or of result `~slot` if negative."""
        return self.ins[slot] if slot >= 0 else self.outs[~slot]

    def seconds(self, work: Work) -> NDArray[np.float64]:
        """Per strategy what the work takes on each device."""
        ins, outs = self._sides

        def share_of(slot: int) -> NDArray[np.float64]:
            side = ins[slot] if slot >= 0 else outs[~slot]
            return side.shares(self.column(slot))

        found: NDArray[np.float64] = work.seconds(self._share, share_of, np.maximum)
        return found

    def distinct(self, slot: int) -> NDArray[np.intp]:
        """The different specs of a column, ascending."""
        found = self._distinct.get(slot)
        if found is None:
            found = self._distinct[slot] = np.unique(self.column(slot))
        return found


def _columns(rows: Sequence[tuple[int, ...]]) -> list[NDArray[np.intp]]:
    return [np.array(column, np.intp) for column in zip(*rows, strict=True)]


KeptLabels = tuple[tuple[int, Label], ...]  # the number of a sub-axis, and its label


def kept_by_node(kept: Sequence[Mapping[int, Label]]) -> dict[int, KeptLabels]:
    """Per node what it must keep, from the labels of each sub-axis by node."""
    found: dict[int, KeptLabels] = {}
    for axis, labels in enumerate(kept):
        for node, label in labels.items():
            found[node] = (*found.get(node, ()), (axis, label))
    return found


def keeper(
    graph: Graph, specs: Specs, node: Node, labels: KeptLabels
) -> Callable[[tuple[int, ...], tuple[int, ...]], bool]:
    """Whether the specs of a node's operands and results say on those sub-axes what labels say."""
    ins, outs = ([side.places for side in sides] for sides in specs.sides(graph, node))

    def keeps(reads: tuple[int, ...], makes: tuple[int, ...]) -> bool:
        taken = [places[spec] for places, spec in zip(ins, reads, strict=True)]
        given = [places[spec] for places, spec in zip(outs, makes, strict=True)]
        return all(
            tuple([places[axis] for places in taken]) == label.ins
            and tuple([places[axis] for places in given]) == label.outs
            for axis, label in labels
        )

    return keeps
