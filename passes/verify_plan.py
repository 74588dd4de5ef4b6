"""The plan verifier: every operation reads and writes in layouts that its rule derives.

A relayout keeps a value; so a plan is right if every operation is right in the layouts it has. Each
mesh axis, or part of one, stands on the operands and results of an operation as one digit of one
factor, or as one way to compute on parts, or nowhere. Nothing here comes from the planner: layouts
go in, and what the rule says of them comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect.attributes import layout_of, layouts_of_array
from dtensor.dialect.diagnostics import error
from dtensor.dialect.layout import Layout
from dtensor.dialect.manual import inner_layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import Value, ir, terminator
from dtensor.dialect.names import (
    ARG_ATTRS,
    LAYOUT,
    LAYOUT_ATTR,
    LOCAL_ATTR,
    MANUAL,
    OPERANDS,
    RELAYOUT,
    RES_ATTRS,
    RESULTS,
)
from dtensor.dialect.verify import verify_all
from dtensor.passes.base import Pass, PassState
from dtensor.passes.derivation import REMEDY, Checker, Layouts, sub_axes_of
from dtensor.passes.functions import SIDES, boundary_layouts, boundary_types, main_function
from dtensor.passes.graph import (
    BORDERS,
    CONSTRAINT,
    MANUAL_EDGES,
    MANUAL_READ,
    OP,
    WHOLE_USE,
    Graph,
    Node,
    OpReader,
)
from dtensor.passes.locations import tagged_id
from dtensor.passes.ops.rule import OpRule
from dtensor.passes.program import (
    BARRIER,
    CONTROL,
    RETURNS,
    WHILE,
    free_axes,
    predicate,
    ties,
    walk,
)
from dtensor.passes.propagation.places import WHOLE, place_of, split_of
from dtensor.passes.propagation.planned import PlannedLayouts, read_planned
from dtensor.passes.propagation.task import asked_layout


@dataclass(frozen=True)
class VerifyPass(Pass):
    """Checks the module: MLIR's rules, and those of the dtensor dialect."""

    name: ClassVar[str] = "dtensor-verify"

    def run(self, module: ir.Module, state: PassState) -> None:
        verify_all(module)


@dataclass(frozen=True)
class VerifyPlanPass(Pass):
    """Checks that the layouts of every operation are ones that its rule derives; changes nothing.

    Before relayouts are inserted it reads `dtensor.operands` and `dtensor.results`, afterwards the
    layouts that values have. Loops, branches and barriers must keep a layout, constraints must get
    what they ask for, and arguments and results must be complete and contiguous.
    """

    name: ClassVar[str] = "dtensor-verify-plan"
    needs_mesh: ClassVar[bool] = True

    def run(self, module: ir.Module, state: PassState) -> None:
        if LOCAL_ATTR in module.operation.attributes:
            error(module.operation, "the module is expanded already; verify the plan before")
        function = main_function(module)
        meshes = state.meshes
        _check_boundary(function, meshes)
        if state.planned is not None or _is_planned(function):
            graph = state.graph_of(function)
            planned = state.planned or read_planned(graph, meshes)
            state.plan_checker = check_planned(graph, planned, meshes)
        else:
            _Values(meshes, state.plan_checker or Checker()).check(function)


def _is_planned(function: ir.Operation) -> bool:
    """Whether relayouts are still to be inserted: operations say what they want to read."""
    # A manual region keeps what it reads, for the check behind the relayouts.
    op, name = next((op, name) for op, name, _ in walk(function) if name != MANUAL)
    return name in RETURNS or OPERANDS in op.attributes


def _check_boundary(function: ir.Operation, meshes: dict[str, Mesh]) -> None:
    for side, what in SIDES.items():
        layouts = boundary_layouts(function, side, meshes)
        types = boundary_types(function, side)
        for i, (layout, type_) in enumerate(zip(layouts, types, strict=True)):
            if not isinstance(type_, ir.RankedTensorType):
                continue
            if layout is None:
                error(function, f"{what} {i} has no {LAYOUT}; run dtensor-propagate before")
            problem = layout.problem(type_.shape) or layout.border_problem()
            if problem is not None:
                error(function, f"{what} {i}: {problem}")


# Before relayouts are inserted: the plan.


def check_planned(graph: Graph, planned: PlannedLayouts, meshes: dict[str, Mesh]) -> Checker:
    """Check every node.

    Returns:
        What was found right, which the check before expansion need not find again.

    Raises:
        LocatedError: an operation has layouts that its rule does not derive.
    """
    checker = Checker()
    rules = checker.rules
    checked = set[tuple[int, int, int]]()  # a plan has one tuple for the layouts of equal ops
    for node in graph.nodes:
        operands, results = planned.operands[node.index], planned.results[node.index]
        if node.kind != OP:
            check_node(graph, node, operands, results, checker, meshes)
            continue
        same = id(node.rule), id(operands), id(results)
        if same not in checked:
            if not checker.is_right(node.rule, operands, results):
                check_node(graph, node, operands, results, checker, meshes)
            checked.add(same)
        number = tagged_id(node.operation.location)
        if number is not None:
            rules[number] = node.name, node.rule
    return checker


def check_node(
    graph: Graph,
    node: Node,
    operands: Layouts,
    results: Layouts,
    checker: Checker,
    meshes: dict[str, Mesh],
) -> None:
    """Check the layouts of one node.

    Raises:
        LocatedError: the node cannot have them.
    """
    operation = node.operation
    if node.free is not None and node.kind not in MANUAL_EDGES:
        _check_free(operation, node, (*operands, *results))
    if node.kind == OP:
        checker.check(operation, node.name, node.rule, operands, results)
    elif node.kind == WHOLE_USE:
        if operands[0].axes or operands[0].partial:
            what = f"the {node.name} is {operands[0].short()}"
            error(operation, f"{what}, but every device must see all of it; {REMEDY}")
    elif node.kind in MANUAL_EDGES:
        sides = (operands, results) if node.kind == MANUAL_READ else (results, operands)
        _check_manual(operation, node, sides, graph, meshes)
    elif node.kind not in BORDERS:
        _check_alike(graph, node, (*operands, *results))
        if node.kind == CONSTRAINT:
            _check_constraint(operation, operands[0], meshes)


def _check_free(op: ir.Operation, node: Node, layouts: Layouts) -> None:
    """Inside a manual region, nothing is laid out over the axes that are manual."""
    for layout in layouts:
        used = [axis.name for axis in (*layout.axes, *layout.partial_axes)]
        bound = [name for name in used if not node.may_use(name)]
        if bound:
            error(op, f"'{node.name}' is {layout.short()}, but {bound[0]} is manual here; {REMEDY}")


def _check_alike(graph: Graph, node: Node, layouts: Layouts) -> None:
    """Carried values, joins, barriers and constraints keep the layout."""
    operation = node.operation
    first = layouts[0]
    for layout in layouts[1:]:
        if layout is not first and layout != first:
            error(
                operation,
                f"'{node.name}' reads {first.short()} and gives {layout.short()}, but keeps "
                f"layouts as they are; {REMEDY}",
            )
    _check_fit(operation, first, graph.types[node.operands[0]].shape)


def _check_fit(operation: ir.Operation, layout: Layout, shape: Sequence[int]) -> None:
    problem = layout.problem(shape)
    if problem is not None:
        error(operation, f"'{operation.name}': {problem}")


def _check_manual(
    op: ir.Operation,
    node: Node,
    sides: tuple[Layouts, Layouts],
    graph: Graph,
    meshes: dict[str, Mesh],
) -> None:
    """Operands and results of a manual region are laid out as it says, and so are its shards."""
    (layout,), inside = sides
    asked = asked_layout(node, meshes)
    if asked is not None and not _keeps(asked, layout, node.may_use):
        error(
            op,
            f"the manual region says {asked.short()}, the plan has {layout.short()}; {REMEDY}",
        )
    free = node.free or ()
    for inner in inside:
        if inner != inner_layout(layout, free):
            error(
                op,
                f"the manual region gives {layout.short()} outside and {inner.short()} inside, "
                f"where {inner_layout(layout, free).short()} is left of it; {REMEDY}",
            )
    _check_fit(op, layout, graph.types[node.subject].shape)


def _check_constraint(operation: ir.Operation, layout: Layout, meshes: dict[str, Mesh]) -> None:
    """A constraint's layout, but for what its open dimensions leave to the planner."""
    asked = layout_of(operation.attributes[LAYOUT_ATTR], meshes)
    if not _keeps(asked, layout, lambda _: True):
        error(
            operation,
            f"the constraint asks for {asked.short()}, the plan has {layout.short()}; "
            "let dtensor-propagate choose the layouts, or change the constraint",
        )


def _keeps(asked: Layout, layout: Layout, may_add: Callable[[str], bool]) -> bool:
    """Whether a layout is the one asked for, but for axes on open dimensions that may be added."""
    closed = layout.closed()
    if closed == asked.closed():
        return True
    for sub_axis in sub_axes_of((asked, closed)):
        want, have = place_of(asked, sub_axis), place_of(closed, sub_axis)
        is_open = want == WHOLE < have and asked.dims[split_of(have)[0]].takes(sub_axis)
        if want != have and not (is_open and may_add(sub_axis.name)):
            return False
    return True


# Before expansion: the values.


class _Values:
    """The layout of every value, as the program's operations and relayouts make it."""

    def __init__(self, meshes: dict[str, Mesh], checker: Checker) -> None:
        self._meshes = meshes
        self._checker = checker
        self._reader = OpReader()
        self._layouts: dict[Value, Layout] = {}
        self._wanted: dict[ir.Operation, Sequence[Layout | None]] = {}
        self._arrays: dict[ir.Attribute, tuple[Layout, ...]] = {}
        mesh = next(iter(meshes.values()))
        self._scalar = Layout.replicated(mesh, 0)  # of predicates, and of what is no tensor

    def check(self, function: ir.Operation) -> None:
        """Check every operation of a function, in program order."""
        layouts, scalar, judged = self._layouts, self._scalar, self._checker
        block = function.regions[0].blocks[0]
        given = boundary_layouts(function, ARG_ATTRS, self._meshes)
        for argument, layout in zip(block.arguments, given, strict=True):
            layouts[argument] = scalar if layout is None else judged.known(layout.closed())
        self._wanted[terminator(block)] = boundary_layouts(function, RES_ATTRS, self._meshes)
        for op, name, _ in walk(function):
            if name in RETURNS:
                self._passed(op, range(len(op.operands)), self._wanted[op])
                continue
            values = op.results
            results = self._results(op, name, len(values))
            if name == MANUAL:
                self._entered(op, results)
            elif name in CONTROL or name == BARRIER:
                self._tied(op, results)
            elif name == RELAYOUT:
                _check_fit(op, results[0], self._shape(values[0]))
            else:
                operands = tuple([layouts.get(v, scalar) for v in op.operands])
                rule = self._rule(op, name)
                if not judged.is_right(rule, operands, results):
                    judged.check(op, name, rule, operands, results)
            for value, layout in zip(values, results, strict=True):
                layouts[value] = layout

    def _results(self, op: ir.Operation, name: str, count: int) -> tuple[Layout, ...]:
        if not count:
            return ()
        try:
            attribute = op.attributes[LAYOUT_ATTR if name == RELAYOUT else RESULTS]
        except KeyError:
            error(
                op,
                f"'{name}' has no {RESULTS}; run dtensor-propagate and dtensor-insert-relayouts "
                "before",
            )
        found = self._arrays.get(attribute)
        if found is None:
            found = self._arrays[attribute] = self._read(attribute)
        return found

    def _read(self, attribute: ir.Attribute) -> tuple[Layout, ...]:
        if not isinstance(attribute, ir.ArrayAttr):
            return (self._checker.known(layout_of(attribute, self._meshes).closed()),)
        layouts = layouts_of_array(attribute, self._meshes)
        return tuple(
            [self._scalar if x is None else self._checker.known(x.closed()) for x in layouts]
        )

    def _shape(self, value: Value) -> tuple[int, ...]:
        return self._reader.type_info(value.type, None).shape

    def _rule(self, op: ir.Operation, name: str) -> OpRule | None:
        number = tagged_id(op.location)
        known = None if number is None else self._checker.rules.get(number)
        if known is not None and known[0] == name:
            return known[1]
        return self._reader.rule(op, name, *self._reader.sides(op), len(op.regions) > 0)

    def _entered(self, op: ir.Operation, results: tuple[Layout, ...]) -> None:
        """A manual region: what comes in, and what its end passes on."""
        given = self._read(op.attributes[OPERANDS]) if len(op.operands) else ()
        free = free_axes(op)
        self._passed(op, range(len(op.operands)), given)
        block = op.regions[0].blocks[0]
        for argument, layout in zip(block.arguments, given, strict=True):
            self._layouts[argument] = self._checker.known(inner_layout(layout, free))
        self._wanted[terminator(block)] = [inner_layout(layout, free) for layout in results]

    def _tied(self, op: ir.Operation, results: tuple[Layout, ...]) -> None:
        for tie, layout in zip(ties(op), results, strict=True):
            _check_fit(op, layout, self._shape(tie.values[-1]))
            for value in tie.values:
                self._layouts[value] = layout
            for reader, _ in tie.sites:
                if reader != op:
                    self._wanted[reader] = results
        if op.name in CONTROL:
            reader, k = predicate(op)
            if reader == op:
                self._passed(op, [k], [self._scalar])
            else:
                self._wanted[reader] = [self._scalar]
        for region in op.regions:  # branches without results end too
            self._wanted.setdefault(terminator(region.blocks[0]), ())
        if op.name in (WHILE, BARRIER):
            self._passed(op, range(len(results)), results)

    def _passed(
        self, op: ir.Operation, operands: Sequence[int], wanted: Sequence[Layout | None]
    ) -> None:
        """Check that operands have the layouts in which their owner passes them on."""
        for k, want in zip(operands, wanted, strict=True):
            have = self._layouts.get(op.operands[k], self._scalar)
            if want is not None and have is not want and have.closed() != want.closed():
                error(
                    op,
                    f"operand {k} of '{op.name}' is {have.short()}, but {want.short()} is passed "
                    "on; insert a dtensor.relayout before it",
                )
