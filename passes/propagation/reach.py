"""How far an axis gets from what is given, without regard to conflicts.

Monotone spreading of `(value, place)` pairs from everything that is pinned: a node collects every
label that some pinned node leads to. Linear in the number of labels found.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dtensor.dialect.axes import AxisRef
from dtensor.passes.graph import ARGUMENT, CONSTRAINT, RESULT, Graph, Node
from dtensor.passes.propagation.labels import Label, LabelTable
from dtensor.passes.propagation.places import MAX_RANK, WHOLE, split_of

ANY_DIMS = range(MAX_RANK)


@dataclass
class AxisReach:
    """Where one mesh axis, or part of one, can get to in a graph.

    Attributes:
        graph: values and nodes.
        sub_axis: the axis.
        table: the labels of all nodes.
        labels: per node the labels it may take, the idle one first unless it was ruled out.
        fixed: per node the label it must take, or None.
        free: per value whether its producer can give it any place at no cost.
        asleep: nodes that are pinned but do not spread in this round.
        refused: `(node, operand or ~result) -> place` that reached the node and has no label there.
        open_dims: per node that is pinned but for some dimensions, those dimensions.
        result_places: per result where it is split by what is given, without regard to conflicts.
        moved: per argument and result, the place that stands for one behind blocks.
    """

    graph: Graph
    sub_axis: AxisRef
    table: LabelTable
    labels: list[list[Label]]
    fixed: list[Label | None]
    free: list[bool]
    open_dims: dict[int, frozenset[int]] = field(default_factory=dict)
    asleep: set[int] = field(default_factory=set)
    refused: dict[tuple[int, int], int] = field(default_factory=dict)
    result_places: dict[int, frozenset[int]] = field(default_factory=dict)
    moved: dict[int, dict[int, int]] = field(default_factory=dict)


def spread(found: AxisReach) -> None:
    """Fill `found.labels` with every label reachable from the pinned nodes."""
    spreader = _Spreader(found)
    for node, pinned in zip(found.graph.nodes, found.fixed, strict=True):
        if pinned is not None and not pinned.is_idle and node.index not in found.asleep:
            spreader.reach(node, pinned)
    spreader.run()


class _Spreader:
    """A run of the spreading: the pairs that were reached, and those that wait."""

    def __init__(self, found: AxisReach) -> None:
        self.found = found
        self.seen: set[tuple[int, int]] = set()
        self.queue: list[tuple[int, int, int, int]] = []
        of_rule = found.table.of_rule
        self.rules = [None if n.rule is None else of_rule(n.rule) for n in found.graph.nodes]

    def reach(self, node: Node, label: Label) -> None:
        """A node can have this label: the nodes around its values must hear of it."""
        graph, fixed, free = self.found.graph, self.found.fixed, self.found.free
        seen, index = self.seen, node.index
        for slot, (value, place) in enumerate(zip(node.operands, label.ins, strict=True)):
            if place == WHOLE or free[value] or (value, place) in seen:
                continue
            pinned = fixed[graph.producer[value]]
            if pinned is not None and pinned.outs[graph.producer_slot[value]] != place:
                continue  # its users may take it so, but it leads nowhere else
            seen.add((value, place))
            self.queue.append((value, place, index, slot))
        for slot, (value, place) in enumerate(zip(node.results, label.outs, strict=True)):
            if place != WHOLE and not free[value] and (value, place) not in seen:
                seen.add((value, place))
                self.queue.append((value, place, index, ~slot))

    def run(self) -> None:
        """Visit what was reached until nothing new is."""
        graph, fixed = self.found.graph, self.found.fixed
        uses, producer, slots = graph.uses, graph.producer, graph.producer_slot
        for value, place, giver, at in self.queue:  # which grows
            knows = giver if place > WHOLE else -1  # a split has one label, which the giver has
            index, slot = producer[value], ~slots[value]
            if fixed[index] is None and (index != knows or slot != at):
                self.visit(index, slot, place)
            for index, slot in uses[value]:
                if fixed[index] is None and (index != knows or slot != at):
                    self.visit(index, slot, place)

    def visit(self, index: int, slot: int, place: int) -> None:
        """Give a node every label in which this operand or result has this place."""
        have = self.found.labels[index]
        labels = self.labels(index, slot, place)
        if not labels and place > WHOLE:
            self.found.refused.setdefault((index, slot), place)
        for label in labels:
            if label not in have:
                have.append(label)
                self.reach(self.found.graph.nodes[index], label)

    def labels(self, index: int, slot: int, place: int) -> tuple[Label, ...]:
        """What the node's rule, or its kind, offers."""
        rule = self.rules[index]
        if rule is not None:
            dims = self.found.open_dims.get(index, ANY_DIMS)
            return rule.at(slot, place) if place < 0 or split_of(place)[0] in dims else ()
        found = self.found
        node = found.graph.nodes[index]
        if node.kind in (ARGUMENT, RESULT, CONSTRAINT):
            allowed = place >= 0 and split_of(place)[0] in found.open_dims.get(index, ANY_DIMS)
            return (found.table.joint(node, place),) if allowed else ()
        return found.table.at(node, slot, place)
