"""Step 3: a first assignment, by letting classes of seeds spread one after the other.

Forward and backward sweeps in program order; a node takes the label that matches the most bytes of
what its neighbours already have. Partial values never decide a node here.
"""

from __future__ import annotations

from dtensor.passes.propagation.labels import Label
from dtensor.passes.propagation.places import MAX_RANK, WHOLE
from dtensor.passes.propagation.problem import Problem
from dtensor.passes.propagation.seeds import Point
from dtensor.passes.propagation.spread import ANY_DIMS
from dtensor.passes.propagation.worklist import Worklist


def sweep(problem: Problem, groups: list[list[Point]]) -> list[Label]:
    """The assignment that results when the groups of seeds spread in this order."""
    run = _Sweep(problem)
    for seeds in groups:
        for value, place in seeds:
            run.touch(value, place)
        for index in run.waiting.sweeps():
            run.decide(index)
    return [problem.labels[i][0] if label is None else label for i, label in enumerate(run.decided)]


class _Sweep:
    def __init__(self, problem: Problem) -> None:
        graph = problem.graph
        self.problem = problem
        self.graph = graph
        self.decided: list[Label | None] = list(problem.fixed)
        self.places: dict[int, int] = {}
        self.waiting = Worklist(len(graph.nodes))
        self.sizes = [t.bytes + 1 for t in graph.types]

    def touch(self, value: int, place: int) -> None:
        """Give a value its place, if it has none, and wake the undecided nodes around it."""
        graph = self.graph
        if value in self.places or self.problem.free[value]:
            return
        producer = graph.producer[value]
        pinned = self.problem.fixed[producer]
        if pinned is not None and pinned.outs[graph.producer_slot[value]] != place:
            return
        if place % MAX_RANK not in self.problem.open_dims.get(producer, ANY_DIMS):
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
        winner, most = None, 0.0
        for label in self.problem.labels[index]:
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
