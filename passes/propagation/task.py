"""What is to be planned: a program, what its user fixed, and the machine that it is for.

What is given spreads priority by priority, and keeps what it has taken. A dimension of a given
layout may have a priority (`{"x"}p1`; 0 where none is written). In a round, dimensions of that
priority and of lower numbers spread; the others are closed, and nobody follows them. What an axis
splits at the end of a round it splits in all later ones, however dear that is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from dtensor.dialect.attributes import layout_of, layouts_of_array
from dtensor.dialect.axes import AxisRef
from dtensor.dialect.diagnostics import error
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.names import ARG_ATTRS, IN_LAYOUTS, OUT_LAYOUTS, RES_ATTRS
from dtensor.passes.cost.model import CostModel
from dtensor.passes.functions import boundary_layouts
from dtensor.passes.graph import (
    ARGUMENT,
    BORDERS,
    CONSTRAINT,
    MANUAL_EDGES,
    MANUAL_READ,
    OP,
    RESULT,
    WHOLE_USE,
    Graph,
    Node,
    TypeInfo,
)
from dtensor.passes.ops.reduction import FLOAT_BITS, sum_element
from dtensor.passes.ops.table import opdef
from dtensor.passes.propagation.labels import Label
from dtensor.passes.propagation.places import WHOLE, place_of, split_of
from dtensor.passes.relayout.sub_axes import axis_cuts

if TYPE_CHECKING:
    from dtensor.passes.planning.prices import PricesOf


@dataclass(frozen=True)
class Task:
    """A program to be laid out.

    Attributes:
        graph: values and nodes.
        pins: what the user fixed.
        mesh: the mesh.
        cost: the machine.
        min_flops: an op of more floating-point operations per device is divided wherever it can be.
        free: per value whether its producer can make any shard of it without communication:
            constants and iota read nothing; broadcasts of scalars read what every device has. They
            are cloned per distinct place when layouts are realised.
        constant: per value whether constants and scalars alone say what it is, so that any device
            could compute all of it: masks, tables of angles, random numbers of a key.
        prices: what relayouts cost, as far as known; other plans of the program may share them.
        reduce_element: element type in which sums over devices are made, if one is asked for.
        is_strict: whether a plan is looked for in which nothing is moved that nobody asked for.
    """

    graph: Graph
    pins: Pins
    mesh: Mesh
    cost: CostModel
    min_flops: float
    free: list[bool]
    constant: list[bool]
    prices: PricesOf
    reduce_element: str | None = None
    is_strict: bool = False

    def summed(self, info: TypeInfo) -> float:
        """Bytes of an element of a tensor while devices add up parts of it."""
        wide = sum_element(info.element, self.reduce_element)
        return info.itemsize if wide == info.element else FLOAT_BITS[wide] / 8

    @classmethod
    def of(
        cls,
        graph: Graph,
        pins: Pins,
        mesh: Mesh,
        cost: CostModel,
        min_flops: float = math.inf,
        prices: PricesOf | None = None,
    ) -> Task:
        """The task of laying out a whole graph, in which any op may be left whole if not told."""
        free = [False] * len(graph.values)
        for node in graph.nodes:
            if is_free(graph, node):
                for value in node.results:
                    free[value] = True
        known = {} if prices is None else prices
        return cls(graph, pins, mesh, cost, min_flops, free, constants(graph), known)


def is_free(graph: Graph, node: Node) -> bool:
    """Whether the node's results cost nothing in any layout.

    A scalar broadcast to one element is that scalar, and may be parts of a sum as it is.
    """
    if not opdef(node.name).rematerialisable:
        return False
    if any(graph.types[value].shape for value in node.operands):
        return False
    return not node.operands or math.prod(graph.types[node.results[0]].shape) > 1


def constants(graph: Graph) -> list[bool]:
    """Per value whether it follows from constants and scalars, around loops too."""
    found = [True] * len(graph.values)
    changed = True
    while changed:
        changed = False
        for node in graph.nodes:
            if node.kind != ARGUMENT and all([found[value] for value in node.operands]):
                continue
            for value in node.results:
                if found[value] and graph.types[value].shape:
                    found[value], changed = False, True
    return found


@dataclass
class Pins:
    """Fixed layouts by node; a node in neither map is free."""

    layouts: dict[int, Layout] = field(default_factory=dict)
    whole: set[int] = field(default_factory=set)


def read_pins(graph: Graph, meshes: dict[str, Mesh]) -> Pins:
    """The layouts that the IR's annotations fix."""
    pins = Pins()
    borders = border_layouts(graph, meshes)
    for node in graph.nodes:
        op = node.operation
        if (node.kind == OP and node.rule is None) or node.kind == WHOLE_USE:
            pins.whole.add(node.index)
        elif node.kind == CONSTRAINT:
            pins.layouts[node.index] = layout_of(op.attributes["layout"], meshes)
            _check_free(node, pins.layouts[node.index])
        elif node.kind in MANUAL_EDGES:
            asked = asked_layout(node, meshes)
            if asked is None:
                pins.whole.add(node.index)
            else:
                pins.layouts[node.index] = asked
        elif node.kind in BORDERS:
            given = borders[node.kind][node.slot]
            if given is not None:
                pins.layouts[node.index] = given
            if not graph.types[node.subject].itemsize:
                pins.whole.add(node.index)
    return pins


def border_layouts(graph: Graph, meshes: dict[str, Mesh]) -> dict[str, list[Layout | None]]:
    """What the function says of its arguments and of its results, by the kind of their nodes."""
    sides = {ARGUMENT: ARG_ATTRS, RESULT: RES_ATTRS}
    functions = {node.kind: node.operation for node in graph.nodes if node.kind in BORDERS}
    return {kind: boundary_layouts(op, sides[kind], meshes) for kind, op in functions.items()}


def _check_free(node: Node, layout: Layout) -> None:
    bound = [axis.name for axis in layout.axes if not node.may_use(axis.name)]
    if bound:
        error(
            node.operation,
            f"a constraint asks for {layout.short()} inside a shard_map that is manual over "
            f"{bound[0]}; name axes that it leaves to the compiler",
        )


def asked_layout(node: Node, meshes: dict[str, Mesh]) -> Layout | None:
    """What a manual region asks for at one of its operands or results; None for a token."""
    side = IN_LAYOUTS if node.kind == MANUAL_READ else OUT_LAYOUTS
    return layouts_of_array(node.operation.attributes[side], meshes)[node.slot]


def planned_sub_axes(pins: Pins, mesh: Mesh, cuts: dict[str, set[int]]) -> list[AxisRef]:
    """The parts of axes that are decided one by one: one divisor chain per mesh axis.

    Args:
        pins: their written parts cut the axes.
        mesh: the mesh.
        cuts: more cuts, found at reshapes; extended by the written parts.

    Raises:
        ValueError: two written parts of one axis have no common refinement.
    """
    for name, written in axis_cuts(*pins.layouts.values()).items():
        cuts.setdefault(name, set()).update(written)
    sub_axes = []
    for name, size in mesh.axes:
        edges = sorted({1, size, *cuts.get(name, set())})
        for low, high in pairwise(edges):
            if high % low:
                raise ValueError(
                    f'parts of axis "{name}" end at {low} and {high} devices, and neither divides '
                    "the other; write parts that nest"
                )
            sub_axes.append(AxisRef(name, low, high // low))
    return sub_axes


def seed_bytes(graph: Graph, pins: Pins, sub_axis: AxisRef) -> float:
    """Size in bytes of the largest pinned value that the axis splits."""
    largest = 0.0
    for index, layout in pins.layouts.items():
        if place_of(layout, sub_axis) >= 0:
            node = graph.nodes[index]
            largest = max(largest, *(graph.bytes(v) for v in node.operands + node.results))
    return largest


LAST = 1 << 62  # a priority that no round comes behind

NodeLabels = Mapping[int, Label]


@dataclass(frozen=True)
class PriorityRound:
    """What one round of one axis may see.

    Attributes:
        priority: the highest number that spreads.
        kept: per node that an earlier round decided on this axis, its label.
        others: of the axes that are decided later in this round, what earlier rounds decided.
    """

    priority: int = LAST
    kept: NodeLabels = field(default_factory=dict)
    others: Sequence[tuple[AxisRef, NodeLabels]] = ()

    def sleeps(self, layout: Layout, axis: AxisRef) -> bool:
        """Whether a given layout splits a dimension over an axis that does not yet spread."""
        place = place_of(layout, axis)
        return place > WHOLE and layout.dims[split_of(place)[0]].priority > self.priority

    def open_dims(self, layout: Layout, axis: AxisRef) -> frozenset[int]:
        """The dimensions of a given layout to which an axis may be added."""
        dims = enumerate(layout.dims)
        return frozenset(d for d, dim in dims if dim.takes(axis) and dim.priority <= self.priority)


ONLY_ROUND = PriorityRound()
"""The one round of a program in which nothing says what comes first."""


def priorities_of(pins: Pins) -> list[int]:
    """The priorities that what is given has, ascending: each is a round."""
    found = {
        dim.priority
        for layout in pins.layouts.values()
        for dim in layout.dims
        if dim.digits or dim.is_open
    }
    return sorted(found)


def keep(kept: dict[int, Label], labels: Sequence[Label]) -> None:
    """Add what a round has split to what later rounds must keep."""
    for index, label in enumerate(labels):
        if label.factor >= 0:
            kept.setdefault(index, label)
