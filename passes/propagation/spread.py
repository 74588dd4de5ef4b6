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
    spreader = Spreader(problem)
    for node, pinned in zip(problem.graph.nodes, problem.fixed, strict=True):
        if pinned is not None and not pinned.is_idle and node.index not in problem.asleep:
            spreader.reach(node.operands, pinned.ins)
            spreader.reach(node.results, pinned.outs)
    spreader.run()


class Spreader:
    """A run of the spreading: the pairs that were reached, and those that wait."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.seen: set[tuple[int, int]] = set()
        self.queue: list[tuple[int, int]] = []
        self.head = 0
        of_rule = problem.table.of_rule
        self.rules = [None if n.rule is None else of_rule(n.rule) for n in problem.graph.nodes]

    def reach(self, values: list[int], places: tuple[int, ...]) -> None:
        """Values can have these places: their other nodes must hear of it."""
        problem, seen = self.problem, self.seen
        graph = problem.graph
        for value, place in zip(values, places, strict=True):
            if place == WHOLE or problem.free[value] or (value, place) in seen:
                continue
            pinned = problem.fixed[graph.producer[value]]
            if pinned is not None and pinned.outs[graph.producer_slot[value]] != place:
                continue  # its users may take it so, but it leads nowhere else
            seen.add((value, place))
            self.queue.append((value, place))

    def run(self) -> None:
        """Visit what was reached until nothing new is."""
        graph, fixed, queue = self.problem.graph, self.problem.fixed, self.queue
        uses, producer, slots = graph.uses, graph.producer, graph.producer_slot
        while self.head < len(queue):
            value, place = queue[self.head]
            self.head += 1
            if fixed[producer[value]] is None:
                self.visit(producer[value], ~slots[value], place)
            for index, slot in uses[value]:
                if fixed[index] is None:
                    self.visit(index, slot, place)

    def visit(self, index: int, slot: int, place: int) -> None:
        """Give a node every label in which this operand or result has this place."""
        have = self.problem.labels[index]
        found = self.labels(index, slot, place)
        if not found and place > WHOLE:
            self.problem.refused.setdefault((index, slot), place)
        for label in found:
            if label not in have:
                have.append(label)
                node = self.problem.graph.nodes[index]
                self.reach(node.operands, label.ins)
                self.reach(node.results, label.outs)

    def labels(self, index: int, slot: int, place: int) -> tuple[Label, ...]:
        """What the node's rule, or its kind, offers."""
        rule = self.rules[index]
        if rule is not None:
            dims = self.problem.open_dims.get(index, ANY_DIMS)
            return rule.at(slot, place) if place < 0 or place % MAX_RANK in dims else ()
        problem = self.problem
        node = problem.graph.nodes[index]
        if node.kind in (ARGUMENT, RESULT, CONSTRAINT):
            allowed = place >= 0 and place % MAX_RANK in problem.open_dims.get(index, ANY_DIMS)
            return (problem.table.joint(node, place),) if allowed else ()
        return problem.table.at(node, slot, place)
