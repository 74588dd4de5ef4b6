"""The result of propagation: the layouts in which every node reads and writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dtensor.dialect.attributes import layouts_array_attr, layouts_of_array
from dtensor.dialect.diagnostics import error
from dtensor.dialect.layout import Layout
from dtensor.dialect.manual import inner_layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.dialect.names import ALGORITHM, ARG_ATTRS, LAYOUT, MANUAL, OPERANDS, RES_ATTRS, RESULTS
from dtensor.passes.cost.model import CostModel
from dtensor.passes.functions import set_boundary_layouts
from dtensor.passes.graph import (
    ARGUMENT,
    BORDERS,
    CONSTRAINT,
    JOIN,
    JOINTS,
    MANUAL_EDGES,
    MANUAL_READ,
    OP,
    RESULT,
    Graph,
    Node,
    op_info,
)
from dtensor.passes.ops.opdef import Placed
from dtensor.passes.ops.table import opdef
from dtensor.passes.planning.algorithms import Reading, choose
from dtensor.passes.planning.alternatives import Alternative
from dtensor.passes.planning.plan import Sides
from dtensor.passes.propagation.task import border_layouts

Attributes = Sequence[tuple[str, ir.Attribute]]


@dataclass
class PlannedLayouts:
    """What was planned.

    Attributes:
        operands: per node, by number, the layouts of its operands.
        results: per node the layouts of its results.
        alternatives: per value that is moved, what could be done instead; empty if read from IR.
    """

    operands: list[tuple[Layout, ...]]
    results: list[tuple[Layout, ...]]
    alternatives: Mapping[int, Alternative] = field(default_factory=dict, compare=False)


def write_planned(graph: Graph, planned: PlannedLayouts, cost: CostModel) -> None:
    """Annotate the IR: layouts and algorithms on ops, layouts on the function.

    The machine, `cost`, says which of several algorithms is the cheapest.
    """
    by_op: dict[int, list[Node]] = {}
    names = _Names()
    said: dict[tuple[int | str, ...], tuple[Attributes, Sides]] = {}
    algorithms = _algorithms(graph, planned, cost)
    for node in graph.nodes:
        if node.kind in (OP, CONSTRAINT):
            sides = planned.operands[node.index], planned.results[node.index]
            algorithm = algorithms.get(node.index, "")
            # A plan has one tuple for equal ops.
            key = id(node.rule), id(sides[0]), id(sides[1]), algorithm
            known = said.get(key) if node.rule is not None else None
            if known is not None:
                says = known[0]
            else:
                says = _says(graph, node, planned, names[algorithm] if algorithm else None)
                said[key] = says, sides  # which keeps the tuples, and so their ids
            attributes = node.operation.attributes
            for name, attribute in says:
                attributes[name] = attribute
        elif node.kind in (*JOINTS, *MANUAL_EDGES):
            by_op.setdefault(id(node.operation), []).append(node)
    for nodes in by_op.values():
        _write_together(graph, nodes, planned)
    write_function_layouts(graph, planned)


def _says(
    graph: Graph, node: Node, planned: PlannedLayouts, algorithm: ir.Attribute | None
) -> Attributes:
    """The attributes of an operation, or of a constraint, which has no algorithm."""
    named = [] if algorithm is None else [(ALGORITHM, algorithm)]
    sides = (OPERANDS, node.operands, planned.operands), (RESULTS, node.results, planned.results)
    return [*named, *((name, _array(graph, vs, ls[node.index])) for name, vs, ls in sides)]


def _array(graph: Graph, values: Sequence[int], layouts: Sequence[Layout]) -> ir.Attribute:
    """The layouts of some values as an attribute; tokens have none."""
    types = graph.types
    if all([types[v].itemsize for v in values]):
        return layouts_array_attr(layouts)
    pairs = zip(values, layouts, strict=True)
    return layouts_array_attr([x if types[v].itemsize else None for v, x in pairs])


def _write_together(graph: Graph, nodes: list[Node], planned: PlannedLayouts) -> None:
    """The layouts of an operation that has a node for each operand or result."""
    operation = nodes[0].operation
    came = [node for node in nodes if node.kind == MANUAL_READ]
    gave = [node for node in nodes if node.kind != MANUAL_READ]
    values = [node.results[-1] for node in gave]
    results = _array(graph, values, [planned.results[node.index][-1] for node in gave])
    if operation.name == MANUAL:
        values = [node.operands[0] for node in came]
        operands = _array(graph, values, [planned.operands[node.index][0] for node in came])
    elif gave[0].kind == JOIN:
        mesh = planned.results[gave[0].index][-1].mesh
        operands = layouts_array_attr((Layout.replicated(mesh, 0),))
    else:
        operands = results
    operation.attributes[OPERANDS] = operands
    operation.attributes[RESULTS] = results


class _Names(dict[str, ir.Attribute]):
    """String attributes, each made once."""

    def __missing__(self, name: str) -> ir.Attribute:
        made = self[name] = ir.StringAttr.get(name)
        return made


def _algorithms(graph: Graph, planned: PlannedLayouts, cost: CostModel) -> dict[int, str]:
    """The name of the algorithm that computes each operation in its layouts, by node."""
    named, readings = dict[int, str](), dict[int, Reading]()
    for node in graph.nodes:
        definition = opdef(node.name) if node.kind == OP else None
        if definition is None:
            continue
        if len(definition.algorithms) == 1:
            named[node.index] = definition.algorithms[0].name
            continue
        sides = ([graph.types[v] for v in values] for values in (node.operands, node.results))
        info = op_info(node.operation, node.name, *sides)
        placed = Placed(info, planned.operands[node.index], planned.results[node.index])
        readings[node.index] = Reading(placed, node.operands, node.weight)
    return named | {k: found.name for k, found in choose(cost, readings).items()}


def write_function_layouts(graph: Graph, planned: PlannedLayouts) -> None:
    """Put the layouts of arguments and results on the function."""
    for kind, name, layouts in (
        (ARGUMENT, ARG_ATTRS, planned.results),
        (RESULT, RES_ATTRS, planned.operands),
    ):
        nodes = [node for node in graph.nodes if node.kind == kind]
        if not nodes:
            continue
        pairs = [(layouts[node.index][0], graph.types[node.subject].itemsize) for node in nodes]
        found = [layout if itemsize else None for layout, itemsize in pairs]  # tokens have none
        set_boundary_layouts(nodes[0].operation, name, found)


def read_planned(graph: Graph, meshes: dict[str, Mesh]) -> PlannedLayouts:
    """What `write_planned` wrote; the graph must be of the same IR."""
    operands: list[tuple[Layout, ...]] = []
    results: list[tuple[Layout, ...]] = []
    mesh = next(iter(meshes.values()))
    scalar = Layout.replicated(mesh, 0)
    borders = border_layouts(graph, meshes)
    for node in graph.nodes:
        op = node.operation
        if node.kind in BORDERS:
            layout = borders[node.kind][node.slot]
            if not graph.types[node.subject].itemsize:
                layout = scalar
            if layout is None:
                error(op, f"{node.kind} {node.slot} has no {LAYOUT}; run dtensor-propagate before")
            border = (layout,)
            operands.append(() if node.kind == ARGUMENT else border)
            results.append(border if node.kind == ARGUMENT else ())
        elif node.kind in MANUAL_EDGES:
            name = OPERANDS if node.kind == MANUAL_READ else RESULTS
            outside = _layouts(op, name, meshes, scalar)[node.slot]
            inside = inner_layout(outside, node.free or ())
            given, made = (outside, inside) if node.kind == MANUAL_READ else (inside, outside)
            operands.append((given,) * len(node.operands))
            results.append((made,) * len(node.results))
        elif node.kind in (OP, CONSTRAINT):
            operands.append(_layouts(op, OPERANDS, meshes, scalar))
            results.append(_layouts(op, RESULTS, meshes, scalar))
        elif node.kind in JOINTS:
            layout = _layouts(op, RESULTS, meshes, scalar)[node.slot]
            operands.append((layout,) * len(node.operands))
            results.append((layout,) * len(node.results))
        else:
            ranks = [len(graph.types[v].shape) for v in node.operands]
            operands.append(tuple([Layout.replicated(mesh, rank) for rank in ranks]))
            results.append(())
    return PlannedLayouts(operands, results)


def _layouts(
    op: ir.Operation, name: str, meshes: dict[str, Mesh], token: Layout
) -> tuple[Layout, ...]:
    """The layouts that an operation says; `token` where it says none."""
    if name not in op.attributes:
        error(op, f"'{op.name}' has no {name}; run dtensor-propagate before")
    found = layouts_of_array(op.attributes[name], meshes)
    return tuple([token if layout is None else layout for layout in found])
