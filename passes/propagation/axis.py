"""The labels of one mesh axis, given what the axes before it took."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.dim import digit_size
from dtensor.dialect.layout import Layout
from dtensor.dialect.manual import inner_layout
from dtensor.dialect.mesh import Mesh
from dtensor.passes.graph import BORDERS, RESULT, Graph, Node
from dtensor.passes.ops.opdef import Placed, algorithm_of
from dtensor.passes.ops.rule import OpRule
from dtensor.passes.ops.table import opdef
from dtensor.passes.propagation.labels import Computes, Label, LabelTable
from dtensor.passes.propagation.places import (
    WHOLE,
    LayoutTable,
    Places,
    place_of,
    split_of,
    split_place,
)
from dtensor.passes.propagation.reach import AxisReach, spread
from dtensor.passes.propagation.task import ONLY_ROUND, Pins, PriorityRound, Task

FactorDigit = tuple[int, int, int]  # factor (or dimension), major, devices


@dataclass
class Decided:
    """What the axes decided so far say.

    Attributes:
        digits: per node the digits of its factors that are taken.
        split: per node among how many devices its work is divided.
    """

    digits: list[list[FactorDigit]]
    split: list[int]

    @classmethod
    def nothing(cls, graph: Graph) -> Decided:
        """The state before the first axis."""
        return cls([[] for _ in graph.nodes], [1] * len(graph.nodes))

    def add(self, sub_axis: AxisRef, labels: Sequence[Label]) -> None:
        """Take in one more axis, with the label of every node."""
        for node, label in enumerate(labels):
            if label.factor >= 0:
                self.take(node, sub_axis, label)
                if label.divides:
                    self.split[node] *= sub_axis.size

    def take(self, node: int, sub_axis: AxisRef, label: Label) -> None:
        """Let nobody else have the digit of a node that a label takes."""
        digit = label.factor, label.major, sub_axis.size
        if digit not in self.digits[node]:
            self.digits[node].append(digit)


def reach_of(
    task: Task,
    sub_axis: AxisRef,
    decided: Decided,
    later: Sequence[int] = (),
    now: PriorityRound = ONLY_ROUND,
) -> AxisReach:
    """The labels of one axis, spread from the pins.

    Args:
        task: what is to be planned.
        sub_axis: the axis.
        decided: what earlier axes decided.
        later: devices of the axes that are still to be decided.
        now: the round, and what rounds before it decided.
    """
    graph, pins, free = task.graph, task.pins, task.free
    table = LabelTable(sub_axis.size, computes_with(sub_axis))
    labels = [[table.idle(node)] for node in graph.nodes]
    fixed: list[Label | None] = [None] * len(graph.nodes)
    open_dims: dict[int, frozenset[int]] = {}
    for index in pins.whole:
        fixed[index] = labels[index][0]
    asleep = {index for index, layout in pins.layouts.items() if now.sleeps(layout, sub_axis)}
    for index, layout in pins.layouts.items():
        place = place_of(layout, sub_axis)
        node = graph.nodes[index]
        if place == WHOLE and layout.has_open and node.may_use(sub_axis.name):
            open_dims[index] = now.open_dims(layout, sub_axis)
            continue
        fixed[index] = table.given(node, place, sub_axis.name)
        labels[index] = [fixed[index]]  # type: ignore[list-item]
    for index, label in now.kept.items():
        fixed[index], labels[index] = label, [label]
    for other, kept in now.others:
        for index, label in kept.items():
            decided.take(index, other, label)
    for node in graph.nodes:
        is_free = free[node.results[0]] if node.results else False
        if is_free or (fixed[node.index] is None and not node.may_use(sub_axis.name)):
            fixed[node.index] = labels[node.index][0]
    found = AxisReach(graph, sub_axis, table, labels, fixed, free, open_dims, asleep)
    spread(found)
    results = [node.index for node in graph.nodes if node.kind == RESULT]
    _note_results(found, results)
    keep_blocks_inside(found, decided, later)
    respect_taken_digits(found, decided, pins)
    _note_results(found, results)
    _forbid_idleness(found, decided, task.min_flops)
    return found


def _note_results(found: AxisReach, results: Sequence[int]) -> None:
    """Note where the axis can come out: of what conflicts, and what stands behind, both."""
    for index in results:
        places = [label.ins[0] for label in found.labels[index] if not label.is_idle]
        found.result_places[index] = found.result_places.get(index, frozenset()).union(places)


def respect_taken_digits(found: AxisReach, decided: Decided, pins: Pins) -> None:
    """Drop labels that overlap digits of earlier axes; offer the place behind those instead.

    A layout with open dimensions takes axes behind all that it says, whichever axis comes first.
    """
    n = found.sub_axis.size
    for node in found.graph.nodes:
        labels = found.labels[node.index]
        if len(labels) == 1 or found.fixed[node.index] is not None:
            continue
        taken = decided.digits[node.index]
        ends: dict[int, int] = {}
        if node.index in found.open_dims:
            written, ends = _written(node, pins.layouts[node.index])
            taken = taken + written
        if not taken:
            continue
        found.labels[node.index] = _different(
            label
            if label.factor < 0
            or (compatible(label, taken, n) and label.major % ends.get(label.factor, 1) == 0)
            else behind(found, node, label, taken)
            for label in labels
        )


def keep_blocks_inside(found: AxisReach, decided: Decided, later: Sequence[int]) -> None:
    """Move the axis ahead of blocks on arguments and results, which have none ahead of an axis.

    What stands ahead may be another axis that is decided, or one that comes later.
    """
    for node in found.graph.nodes:
        if node.kind not in BORDERS or found.fixed[node.index] is not None:
            continue
        labels = found.labels[node.index]
        if all(label.major == 1 for label in labels):
            continue
        taken = decided.digits[node.index]
        moved = {x: _different(_ahead_of_blocks(found, node, x, taken, later)) for x in labels}
        found.labels[node.index] = _different(chain.from_iterable(moved.values()))
        found.moved[node.index] = {x.places[0]: to[0].places[0] for x, to in moved.items() if to}


def _different(labels: Iterable[Label | None]) -> list[Label]:
    """Those labels that there are, each once; they are compared by identity."""
    return [label for label in dict.fromkeys(labels) if label is not None]


def _ahead_of_blocks(
    found: AxisReach, node: Node, label: Label, taken: list[FactorDigit], later: Sequence[int]
) -> list[Label | None]:
    """The labels with nothing ahead of the axis but decided axes and, if they fit, later ones."""
    if label.factor < 0:
        return [label]
    ahead, moved = _axes_ahead(label, taken), []
    for count in _products(label.major // ahead, later):
        if ahead * count == label.major:
            return [label]
        moved.append(found.table.joint(node, split_place(label.factor, ahead * count)))
    fit = [each for each in moved if compatible(each, taken, found.sub_axis.size)]
    return [*fit] or [behind(found, node, label, taken)]


def _axes_ahead(label: Label, taken: list[FactorDigit]) -> int:
    """How many blocks the decided axes make of the label's dimension, ahead of its place."""
    end = 1
    for factor, major, size in sorted(taken):
        if factor == label.factor and major == end and label.major % (end * size) == 0:
            end *= size
    return end


def _products(count: int, sizes: Sequence[int]) -> list[int]:
    """The products of some of the sizes that divide a number, the largest first."""
    products = {1}
    for size in sizes:
        products |= {product * size for product in products}
    return sorted((product for product in products if count % product == 0), reverse=True)


def _written(node: Node, layout: Layout) -> tuple[list[FactorDigit], dict[int, int]]:
    """The digits that a layout says, and per dimension how many blocks they make.

    At a manual region, the factors of the node are of the shards inside.
    """
    if node.free is not None and node.rule is not None:
        layout = inner_layout(layout, node.free)
    dims = list(enumerate(layout.dims))
    digits = [(d, major, axis.size) for d, dim in dims for axis, major in dim.placed()]
    return digits, {d: math.prod(map(digit_size, dim.digits)) for d, dim in dims}


def compatible(label: Label, taken: list[FactorDigit], n: int) -> bool:
    """Whether an axis of `n` devices can take the label beside the digits that others took."""
    end = label.major * n
    return all(
        factor != label.factor or other % end == 0 or label.major % (other * size) == 0
        for factor, other, size in taken
    )


def behind(found: AxisReach, node: Node, label: Label, taken: list[FactorDigit]) -> Label | None:
    """The label that splits the same factor behind all digits that are taken of it, if it fits."""
    major = max(other * size for factor, other, size in taken if factor == label.factor)
    if node.rule is not None:
        return found.table.of_rule(node.rule).digit(label.factor, major)
    if found.graph.types[node.subject].shape[label.factor] % (major * found.sub_axis.size):
        return None
    return found.table.joint(node, split_place(label.factor, major))


def _forbid_idleness(found: AxisReach, decided: Decided, min_flops: float) -> None:
    for node in found.graph.nodes:
        if node.rule is None or found.fixed[node.index] is not None:
            continue
        if node.rule.flops < min_flops * decided.split[node.index]:
            continue
        if not opdef(node.name).must_divide:
            continue
        dividing = [label for label in found.labels[node.index] if label.divides]
        if dividing:
            found.labels[node.index] = dividing


def computes_with(sub_axis: AxisRef) -> Computes:
    """Whether there is an algorithm if nothing but this axis splits anything.

    What stands ahead of the axis in a dimension is taken for another axis.
    """

    def computes(rule: OpRule, ins: Places, outs: Places) -> bool:
        op = rule.op
        if op is None:
            return False
        ahead = max([1, *(split_of(place)[1] for place in (*ins, *outs))])
        sizes = (
            [(sub_axis.name, sub_axis.size)]
            if ahead == 1
            else [("ahead", ahead), ("axis", sub_axis.size)]
        )
        mesh = Mesh(sizes)
        table = LayoutTable([mesh.axis(name) for name in mesh.axis_names], mesh)

        def layouts(shapes: tuple[tuple[int, ...], ...], places: Places) -> tuple[Layout, ...]:
            pairs = zip(shapes, places, strict=True)
            return tuple(table.layout(len(s), _places(place, len(sizes))) for s, place in pairs)

        placed = Placed(op, layouts(op.operand_shapes, ins), layouts(op.result_shapes, outs))
        return algorithm_of(opdef(op.name), placed) is not None

    return computes


def _places(place: int, axes: int) -> Places:
    """The place of the axis, behind that of the axis ahead of it if there are two."""
    if axes == 1:
        return (place,)
    dim, major = split_of(place)
    return (split_place(dim, 1) if place >= 0 and major > 1 else WHOLE, place)
