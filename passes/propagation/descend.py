"""Step 5: improve an assignment node by node until no single change makes it cheaper.

Iterated conditional modes (Besag 1986) on the cost of algorithm.md step 4. Only nodes next to a
relayout, or idle though they could divide their work, are looked at; a change wakes the
neighbours. At equal cost a node passes a partial value on, so that reductions come late and meet.
"""

from __future__ import annotations

from dtensor.passes.graph import Graph
from dtensor.passes.propagation.labels import Label
from dtensor.passes.propagation.places import WHOLE
from dtensor.passes.propagation.problem import Problem
from dtensor.passes.propagation.worklist import Worklist

_GAIN = 1e-9  # relative; less is rounding


def descend(problem: Problem, sweeps: int = 8) -> int:
    """Change `problem.current` until stable; the number of changes."""
    graph = problem.graph
    waiting = Worklist(len(graph.nodes))
    movable = [
        pinned is None and len(labels) > 1
        for pinned, labels in zip(problem.fixed, problem.labels, strict=True)
    ]

    for value in range(len(graph.values)):
        if problem.value_seconds(value) > 0:
            _wake_around(graph, value, movable, waiting)
    for index, (can_move, label) in enumerate(zip(movable, problem.current, strict=True)):
        if can_move and (not label.divides or label.comm):
            waiting.add(index)
    moves = 0
    for index in waiting.sweeps(sweeps):
        if _improve(problem, index):
            moves += 1
            node = graph.nodes[index]
            for value in dict.fromkeys(node.operands + node.results):
                _wake_around(graph, value, movable, waiting)
    return moves


def _wake_around(graph: Graph, value: int, movable: list[bool], waiting: Worklist) -> None:
    """Let the movable nodes that make and use a value wait."""
    for index in (graph.producer[value], *[node for node, _ in graph.uses[value]]):
        if movable[index]:
            waiting.add(index)


def _improve(problem: Problem, index: int) -> bool:
    """Give one node its cheapest label; whether it changed."""
    node = problem.graph.nodes[index]
    values = list(dict.fromkeys(node.operands + node.results))
    current = problem.current
    old = current[index]
    best, best_cost, best_rank = old, _cost(problem, index, values), _rank(problem, index, old)
    for label in problem.labels[index]:
        if label is old:
            continue
        current[index] = label
        cost = _cost(problem, index, values)
        slack = _GAIN * best_cost + 1e-15
        if cost > best_cost + slack:
            continue
        rank = _rank(problem, index, label)
        if cost < best_cost - slack or rank < best_rank:
            best, best_cost, best_rank = label, cost, rank
    current[index] = best
    return best is not old


def _rank(problem: Problem, index: int, label: Label) -> int:
    """0 for passing on parts that the operands already are; 1 for everything else."""
    if label.factor >= 0 or min(label.outs, default=WHOLE) >= WHOLE:
        return 1
    operands = problem.graph.nodes[index].operands
    places = [problem.place(v) for v, at in zip(operands, label.ins, strict=True) if at < WHOLE]
    return 0 if places and max(places) < WHOLE else 1


def _cost(problem: Problem, index: int, values: list[int]) -> float:
    return problem.local_seconds(index) + sum(map(problem.value_seconds, values))
