"""Step 3: a first assignment, by letting classes of seeds spread one after the other.

Forward and backward sweeps in program order; a node takes the label that matches the most bytes of
what its neighbours already have. Partial values never decide a node here.
"""

from __future__ import annotations

import heapq

from dtensor.passes.propagation.labels import Label
from dtensor.passes.propagation.places import WHOLE
from dtensor.passes.propagation.problem import Problem
from dtensor.passes.propagation.seeds import Point


def sweep(problem: Problem, groups: list[list[Point]]) -> list[Label]:
    """The assignment that results when the groups of seeds spread in this order."""
    graph = problem.graph
    nodes, producer, uses = graph.nodes, graph.producer, graph.uses
    decided: list[Label | None] = list(problem.fixed)
    place: dict[int, int] = {}
    sizes = [t.bytes for t in graph.types]
    pending: list[bool] = [False] * len(nodes)
    queue: list[int] = []

    def touch(value: int, at: int) -> None:
        if at == WHOLE or value in place or problem.free[value]:
            return
        pinned = problem.fixed[producer[value]]
        if pinned is not None and pinned.outs[graph.producer_slot[value]] != at:
            return
        place[value] = at
        for index in (producer[value], *(node for node, _ in uses[value])):
            if decided[index] is None and not pending[index]:
                pending[index] = True
                queue.append(index)

    def best(index: int) -> Label | None:
        node = nodes[index]
        winner, score = None, 0.0
        for label in problem.labels[index]:
            points = 0.0
            for value, at in zip(node.operands, label.ins, strict=True):
                if at > WHOLE and place.get(value) == at:
                    points += sizes[value] + 1
            for value, at in zip(node.results, label.outs, strict=True):
                if at > WHOLE and place.get(value) == at:
                    points += sizes[value] + 1
            if points > score:
                winner, score = label, points
        return winner

    for seeds in groups:
        for value, at in seeds:
            touch(value, at)
        forward = True
        while queue:
            sign = 1 if forward else -1
            heap = [sign * i for i in queue]
            queue = []
            heapq.heapify(heap)
            while heap:
                index = sign * heapq.heappop(heap)
                pending[index] = False
                label = best(index)
                if label is None:
                    continue
                decided[index] = label
                node = nodes[index]
                for value, at in zip(node.results, label.outs, strict=True):
                    if at > WHOLE:
                        touch(value, at)
                for value, at in zip(node.operands, label.ins, strict=True):
                    if at > WHOLE:
                        touch(value, at)
                later = [i for i in queue if sign * i > sign * index]
                if later:
                    queue = [i for i in queue if sign * i <= sign * index]
                    for i in later:
                        heapq.heappush(heap, sign * i)
            forward = not forward
    return [
        label if label is not None else problem.labels[i][0] for i, label in enumerate(decided)
    ]
