"""Step 1: which labels the seeds can reach.

Monotone spreading of `(value, place)` pairs from everything that is pinned, without conflicts: a
node collects every label that some seed leads to. Linear in the number of labels found.
"""

from __future__ import annotations

from dtensor.passes.graph import ARGUMENT, CONSTRAINT, RESULT
from dtensor.passes.propagation.places import MAX_RANK, WHOLE
from dtensor.passes.propagation.problem import Problem

ANY_DIMS = range(MAX_RANK)


def spread(problem: Problem) -> None:
    """Fill `problem.labels` with every label reachable from the pinned nodes."""
    graph, table = problem.graph, problem.table
    nodes, uses, producer, slots = graph.nodes, graph.uses, graph.producer, graph.producer_slot
    fixed, free, labels, open_dims = problem.fixed, problem.free, problem.labels, problem.open_dims
    reached_from = problem.reached_from
    rules = [None if node.rule is None else table.of_rule(node.rule) for node in nodes]
    seen: set[tuple[int, int]] = set()
    queue: list[tuple[int, int]] = []

    def reach(values: list[int], places: tuple[int, ...]) -> None:
        for value, place in zip(values, places, strict=True):
            if place == WHOLE or free[value] or (value, place) in seen:
                continue
            pinned = fixed[producer[value]]
            if pinned is not None and pinned.outs[slots[value]] != place:
                continue  # its users may take it so, but it leads nowhere else
            seen.add((value, place))
            queue.append((value, place))

    def visit(index: int, slot: int, place: int, source: int) -> None:
        if fixed[index] is not None:
            return
        rule = rules[index]
        node = nodes[index]
        if rule is not None:
            found = rule.at(slot, place)
        elif node.kind in (ARGUMENT, RESULT, CONSTRAINT):
            allowed = place >= 0 and place % MAX_RANK in open_dims.get(index, ANY_DIMS)
            found = (table.joint(node, place),) if allowed else ()
        else:
            found = table.at(node, slot, place)
        have = labels[index]
        for label in found:
            if label not in have:
                have.append(label)
                reached_from[index, label] = source
                reach(node.operands, label.ins)
                reach(node.results, label.outs)

    for node, pinned in zip(nodes, fixed, strict=True):
        if pinned is not None and not pinned.is_idle:
            reach(node.operands, pinned.ins)
            reach(node.results, pinned.outs)
    head = 0
    while head < len(queue):
        value, place = queue[head]
        head += 1
        visit(producer[value], ~slots[value], place, value)
        for index, slot in uses[value]:
            visit(index, slot, place, value)
