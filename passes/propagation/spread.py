"""Step 1: which labels the seeds can reach.

Monotone spreading of `(value, place)` pairs from everything that is pinned, without conflicts: a
node collects every label that some seed leads to. Linear in the number of labels found.
"""

from __future__ import annotations

from dtensor.passes.graph import ARGUMENT, CONSTRAINT, RESULT
from dtensor.passes.propagation.labels import Label
from dtensor.passes.propagation.places import MAX_RANK, WHOLE
from dtensor.passes.propagation.problem import Problem

ANY_DIMS = range(MAX_RANK)


def spread(problem: Problem) -> None:
    """Fill `problem.labels` with every label reachable from the pinned nodes."""
    graph = problem.graph
    nodes, uses, producer = graph.nodes, graph.uses, graph.producer
    fixed, free, labels = problem.fixed, problem.free, problem.labels
    at = problem.table.at
    open_dims = problem.open_dims
    seen: set[tuple[int, int]] = set()
    queue: list[tuple[int, int]] = []

    def reach(value: int, place: int) -> None:
        if place == WHOLE or free[value] or (value, place) in seen:
            return
        pinned = fixed[producer[value]]
        if pinned is not None and pinned.outs[graph.producer_slot[value]] != place:
            return  # its users may take it so, but it leads nowhere else
        seen.add((value, place))
        queue.append((value, place))

    def visit(index: int, slot: int, place: int, source: int) -> None:
        node = nodes[index]
        if fixed[index] is not None:
            return
        if node.kind in (ARGUMENT, RESULT, CONSTRAINT):
            allowed = place >= 0 and place % MAX_RANK in open_dims.get(index, ANY_DIMS)
            found: tuple[Label, ...] = (problem.table.joint(node, place),) if allowed else ()
        else:
            found = at(node, slot, place)
        for label in found:
            if label in labels[index]:
                continue
            labels[index].append(label)
            problem.reached_from[index, label] = source
            for value, there in zip(node.operands, label.ins, strict=True):
                reach(value, there)
            for value, there in zip(node.results, label.outs, strict=True):
                reach(value, there)

    for node in nodes:
        pinned = fixed[node.index]
        if pinned is not None:
            for value, place in zip(node.operands, pinned.ins, strict=True):
                reach(value, place)
            for value, place in zip(node.results, pinned.outs, strict=True):
                reach(value, place)
    head = 0
    while head < len(queue):
        value, place = queue[head]
        head += 1
        visit(producer[value], ~graph.producer_slot[value], place, value)
        for index, slot in uses[value]:
            visit(index, slot, place, value)
