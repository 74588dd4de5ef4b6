"""Where the search for a plan starts: what is given spreads, and the larger array wins.

Forward and backward sweeps in program order; a node takes the label that matches the most bytes of
what its neighbours already have. Partial values never decide a node: afterwards, nodes that could
pass them on do, so that reductions come late and meet.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from dtensor.passes.graph import Node
from dtensor.passes.propagation.labels import Label
from dtensor.passes.propagation.places import WHOLE, split_of
from dtensor.passes.propagation.reach import ANY_DIMS, AxisReach


def sweep(found: AxisReach) -> tuple[Label, ...]:
    """The label of every node; the largest values that are given spread first."""
    run = _Sweep(found)
    for value, place in _given(found):
        run.touch(value, place)
    for index in run.waiting.sweeps():
        run.decide(index)
    for node in found.graph.nodes:
        if run.decided[node.index] is None:
            run.decided[node.index] = run.passes_on(node) or found.labels[node.index][0]
    return tuple([label for label in run.decided if label is not None])


def _given(found: AxisReach) -> list[tuple[int, int]]:
    """The given splits, as values and places, the largest values first; ties in program order."""
    points: dict[tuple[int, int], None] = {}
    for node, pinned in zip(found.graph.nodes, found.fixed, strict=True):
        if pinned is not None and not pinned.is_idle and node.index not in found.asleep:
            points |= dict.fromkeys(zip(node.operands + node.results, pinned.places, strict=True))
    split = [(value, place) for value, place in points if place > WHOLE]
    return sorted(split, key=lambda point: -found.graph.bytes(point[0]))


class _Sweep:
    def __init__(self, found: AxisReach) -> None:
        graph = found.graph
        self.found = found
        self.graph = graph
        self.decided: list[Label | None] = list(found.fixed)
        self.places: dict[int, int] = {}
        self.waiting = Worklist(len(graph.nodes))
        self.sizes = [t.bytes + 1 for t in graph.types]

    def touch(self, value: int, place: int) -> None:
        """Give a value its place, if it has none, and wake the undecided nodes around it."""
        graph = self.graph
        if value in self.places or self.found.free[value]:
            return
        producer = graph.producer[value]
        pinned = self.found.fixed[producer]
        if pinned is not None and pinned.outs[graph.producer_slot[value]] != place:
            return
        if split_of(place)[0] not in self.found.open_dims.get(producer, ANY_DIMS):
            return
        self.places[value] = place
        if self.decided[producer] is None:
            self.waiting.add(producer)
        for index, _ in graph.uses[value]:
            if self.decided[index] is None:
                self.waiting.add(index)

    def decide(self, index: int) -> None:
        """Let a node take the label that matches the most bytes; its other values follow."""
        node = self.graph.nodes[index]
        values = node.operands + node.results
        have = [self.places.get(value, WHOLE) for value in values]
        if index in self.found.moved:
            have = [self.found.moved[index].get(place, place) for place in have]
        winner, most = None, 0.0
        for label in self.found.labels[index]:
            matched = 0.0  # bytes of the values that have these places already
            for value, here, place in zip(values, have, label.places, strict=True):
                if here == place != WHOLE:
                    matched += self.sizes[value]
            if matched > most:
                winner, most = label, matched
        if winner is None:
            return
        self.decided[index] = winner
        for values, places in ((node.results, winner.outs), (node.operands, winner.ins)):
            for value, place in zip(values, places, strict=True):
                if place > WHOLE:
                    self.touch(value, place)

    def passes_on(self, node: Node) -> Label | None:
        """The label that passes on what the operands are parts of; None if there is none.

        It takes every partial operand as it is, and asks for no other part.
        """
        labels = self.found.labels[node.index]
        if len(labels) < 2:
            return None
        have = tuple([min(self._given_place(value), WHOLE) for value in node.operands])
        if not any([place < WHOLE for place in have]):
            return None
        return next((x for x in labels if x.factor < 0 and x.ins == have), None)

    def _given_place(self, value: int) -> int:
        """The place at which a value is produced, as far as that is decided."""
        label = self.decided[self.graph.producer[value]]
        return WHOLE if label is None else label.outs[self.graph.producer_slot[value]]


class Worklist:
    """Each node waits at most once. What is added ahead of a running sweep joins it."""

    def __init__(self, nodes: int) -> None:
        self._waits = [False] * nodes
        self._later: list[int] = []
        self._heap: list[int] = []
        self._sign = 1
        self._at = 0
        self._sweeping = False

    def add(self, node: int) -> None:
        """Let a node wait."""
        if self._waits[node]:
            return
        self._waits[node] = True
        if self._sweeping and self._sign * node > self._at:
            heapq.heappush(self._heap, self._sign * node)
        else:
            self._later.append(node)

    def sweeps(self) -> Iterator[int]:
        """The waiting nodes, forward, then backward, ... until none wait."""
        self._sign = -1
        while self._later:
            self._sign = -self._sign
            self._heap = [self._sign * node for node in self._later]
            self._later = []
            heapq.heapify(self._heap)
            self._sweeping = True
            while self._heap:
                self._at = heapq.heappop(self._heap)
                node = self._sign * self._at
                self._waits[node] = False
                yield node
            self._sweeping = False
