"""What the user fixed: the layouts of arguments, results and constraints, per node."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from dtensor.dialect.attributes import layout_of, layouts_of_array
from dtensor.dialect.axes import AxisRef
from dtensor.dialect.diagnostics import error
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.names import ARG_ATTRS, IN_LAYOUTS, OUT_LAYOUTS, RES_ATTRS
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
)
from dtensor.passes.propagation.places import place_of
from dtensor.passes.relayout.atoms import axis_cuts


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


def atoms_of(pins: Pins, mesh: Mesh, cuts: dict[str, set[int]]) -> list[AxisRef]:
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
    atoms = []
    for name, size in mesh.axes:
        edges = sorted({1, size, *cuts.get(name, set())})
        for low, high in pairwise(edges):
            if high % low:
                raise ValueError(
                    f'parts of axis "{name}" end at {low} and {high} devices, and neither divides '
                    "the other; write parts that nest"
                )
            atoms.append(AxisRef(name, low, high // low))
    return atoms


def seed_bytes(graph: Graph, pins: Pins, atom: AxisRef) -> float:
    """Size in bytes of the largest pinned value that the axis splits."""
    largest = 0.0
    for index, layout in pins.layouts.items():
        if place_of(layout, atom) >= 0:
            node = graph.nodes[index]
            largest = max(largest, *(graph.bytes(v) for v in node.operands + node.results))
    return largest
