"""Expansion: every op on the shapes of one device, every relayout as explicit collectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect.attributes import layout_of, layouts_of_array
from dtensor.dialect.diagnostics import error
from dtensor.dialect.functions import function_name, functions
from dtensor.dialect.layout import Layout
from dtensor.dialect.manual import inner_layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import Value, forget, ir, ops_of, replace_op
from dtensor.dialect.names import (
    ALGORITHM,
    ARG_ATTRS,
    FITS,
    LAYOUT,
    LAYOUT_ATTR,
    LOCAL_ATTR,
    MAIN,
    MANUAL,
    OPERANDS,
    RELAYOUT,
    RES_ATTRS,
    RESULTS,
)
from dtensor.passes.base import Pass, PassState
from dtensor.passes.creation import Shape
from dtensor.passes.expansion.context import ExpansionContext, LocalOp
from dtensor.passes.expansion.relayouts import expand_relayout, relayout_value
from dtensor.passes.functions import SIDES, boundary_layouts, boundary_types, entries
from dtensor.passes.ops.opdef import Algorithm, algorithm_of, placed_of
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import BRANCHES, RETURNS, WHILE, free_axes


@dataclass(frozen=True)
class ExpandPass(Pass):
    """Turns the program of all devices into the program of one.

    Every value gets the shape of its shard, every `dtensor.relayout` becomes the cheapest chain of
    collectives, and ops whose attributes speak of whole dimensions are adapted. The layouts on ops
    are dropped; those of function arguments and results stay.
    """

    name: ClassVar[str] = "dtensor-expand"
    needs_mesh: ClassVar[bool] = True

    def run(self, module: ir.Module, state: PassState) -> None:
        laid_out = [function for function in functions(module) if _has_layouts(function)]
        if not laid_out:
            return
        if LOCAL_ATTR in module.operation.attributes:
            error(module.operation, "the module is expanded already; its types are per-device")
        assert state.mesh is not None
        state.forget_ir()
        expansion = _Expansion(state.mesh, state.meshes, state)
        for function in laid_out:
            expansion.function(function)
        module.operation.attributes[LOCAL_ATTR] = ir.UnitAttr.get()


def _has_layouts(function: ir.Operation) -> bool:
    """Whether a function belongs to the program; reducers and the like have no layouts."""
    return function_name(function) == MAIN or any(
        LAYOUT in entry for side in SIDES for entry in entries(function, side)
    )


class _Expansion:
    """Rewrites functions in place; knows the layout of every value it has passed."""

    def __init__(self, mesh: Mesh, meshes: dict[str, Mesh], state: PassState) -> None:
        self.meshes = meshes
        self.scalar = Layout.replicated(mesh, 0)  # also stands for values that are no tensors
        self.ctx = ExpansionContext(mesh, state, relayout_value)
        self._layouts: dict[Value, Layout] = {}
        self._as_they_are: list[ir.Operation] = []  # relayouts whose operand has both layouts
        self._arrays: dict[ir.Attribute, tuple[Layout | None, ...]] = {}
        self._local_types: dict[tuple[ir.Type, Layout], ir.Type] = {}
        self._global_shapes: dict[tuple[ir.Type, Layout], Shape] = {}

    # Layouts and types.

    def array(self, attribute: ir.Attribute) -> tuple[Layout | None, ...]:
        """The layouts of an array attribute, read once per distinct attribute."""
        found = self._arrays.get(attribute)
        if found is None:
            found = self._arrays[attribute] = layouts_of_array(attribute, self.meshes)
        return found

    def layout(self, value: Value) -> Layout:
        """The layout of a value that was already expanded."""
        found = self._layouts.get(value)
        if found is None:
            assert not isinstance(value.type, ir.RankedTensorType), "whose maker says its layout"
            return self.scalar
        return found

    def local_type(self, type_: ir.Type, layout: Layout) -> ir.Type:
        """The type of this device's part of a value of global type `type_`; a token stays one."""
        if not isinstance(type_, ir.RankedTensorType):
            return type_
        key = (type_, layout)
        found = self._local_types.get(key)
        if found is None:
            shape, element = self.ctx.read_type(type_)
            found = self.ctx.tensor_type(layout.local_shape(shape), element)
            self._local_types[key] = found
        return found

    def global_shape(self, type_: ir.Type, layout: Layout) -> Shape:
        """The shape of the whole value of which this device's part has type `type_`."""
        key = (type_, layout)
        found = self._global_shapes.get(key)
        if found is None:
            found = self._global_shapes[key] = layout.global_shape(self.ctx.read_type(type_)[0])
        return found

    def set_types(self, values: Sequence[Value], layouts: Sequence[Layout | None]) -> None:
        """Give values their local types and remember their layouts."""
        known = self._layouts
        for value, layout in zip(values, layouts, strict=True):
            if layout is None:
                continue
            known[value] = layout
            type_ = value.type
            local = self.local_type(type_, layout)
            if local is not type_ and local != type_:
                value.set_type(local)

    # Functions.

    def function(self, function: ir.Operation) -> None:
        """Expand one function: arguments, body, results, signature."""
        arguments = self.boundary(function, ARG_ATTRS)
        results = self.boundary(function, RES_ATTRS)
        block = function.regions[0].blocks[0]
        self.set_types(list(block.arguments), arguments)
        self.block(block, results)
        self.erase_what_moves_nothing()
        outputs = [
            t if layout is None else self.local_type(t, layout)
            for t, layout in zip(boundary_types(function, RES_ATTRS), results, strict=True)
        ]
        local = ir.FunctionType.get([a.type for a in block.arguments], outputs)
        function.attributes["function_type"] = ir.TypeAttr.get(local)

    def boundary(self, function: ir.Operation, side: str) -> list[Layout | None]:
        """The layouts of arguments or results; only what is no tensor may have none."""
        found = boundary_layouts(function, side, self.meshes)
        for i, (layout, type_) in enumerate(
            zip(found, boundary_types(function, side), strict=True)
        ):
            if layout is None and isinstance(type_, ir.RankedTensorType):
                error(
                    function,
                    f"{SIDES[side]} {i} has no {LAYOUT}; run dtensor-propagate and "
                    "dtensor-insert-relayouts before dtensor-expand",
                )
        return found

    # Blocks.

    def block(self, block: ir.Block, results: Sequence[Layout | None]) -> None:
        """Expand the ops of a block whose terminator must pass on values of layouts `results`."""
        for op in ops_of(block):
            name = op.name
            if name in RETURNS:
                self.terminator(op, results)
            elif name == RELAYOUT:
                self.relayout(op)
            elif name == WHILE:
                self.loop(op)
            elif name in BRANCHES:
                self.branches(op)
            elif name == MANUAL:
                self.manual(op)
            else:
                self.plain(op, name)

    def manual(self, op: ir.Operation) -> None:
        """Put the body, which works on shards already, in the place of the region."""
        layouts = self.results_of(op, list(op.results))
        block, free = op.regions[0].blocks[0], free_axes(op)
        if free:
            given = [self.layout(value) for value in op.operands]
            inner = [inner_layout(layout, free) for layout in given]
            self.set_types(list(block.arguments), inner)
            around, self.ctx.free = self.ctx.free, free
            self.block(block, [x and inner_layout(x, free) for x in layouts])
            self.ctx.free = around
        for argument, value in zip(block.arguments, op.operands, strict=True):
            argument.replace_all_uses_with(value)
        *body, end = ops_of(block)
        for each in body:
            each.move_before(op)
        self.replace(op, list(end.operands), layouts)

    def results_of(self, op: ir.Operation, results: Sequence[Value]) -> tuple[Layout | None, ...]:
        """The planned layouts of an op's results."""
        attributes = op.attributes
        if RESULTS in attributes:
            return self.array(attributes[RESULTS])
        if any(isinstance(result.type, ir.RankedTensorType) for result in results):
            error(
                op,
                f"'{op.name}' has no {RESULTS}; run dtensor-propagate and "
                "dtensor-insert-relayouts before dtensor-expand",
            )
        return (None,) * len(results)

    def plain(self, op: ir.Operation, name: str) -> None:
        """Expand an op without regions that hold tensors."""
        results = list(op.results)
        layouts = self.results_of(op, results)
        algorithm = self.named_algorithm(op, name)
        if algorithm is None or algorithm.expand is not None:
            local = self.local_op(op, name, results, layouts)
            algorithm = self.checked_algorithm(local, algorithm)
            values = None if algorithm.expand is None else algorithm.expand(local)
            if values is not None:
                self.replace(op, values, layouts)
                return
        self.set_types(results, layouts)
        forget(op, RESULTS, OPERANDS, ALGORITHM, FITS)

    def named_algorithm(self, op: ir.Operation, name: str) -> Algorithm | None:
        """The algorithm that the op names, or its only one; None if its layouts must tell."""
        attributes = op.attributes
        definition = opdef(name)
        if ALGORITHM not in attributes:
            return definition.algorithms[0] if len(definition.algorithms) == 1 else None
        named = ir.StringAttr(attributes[ALGORITHM]).value
        found = definition.algorithm(named)
        if found is None:
            have = ", ".join(f"'{algorithm.name}'" for algorithm in definition.algorithms)
            error(op, f"'{name}' has no algorithm '{named}'; it has {have}: name one of them")
        return found

    def checked_algorithm(self, local: LocalOp, named: Algorithm | None) -> Algorithm:
        """The algorithm, which must apply to the layouts; the first that does if none is named."""
        definition = opdef(local.name)
        if named is not None and len(definition.algorithms) == 1:
            return named
        placed = placed_of(local)
        found = algorithm_of(definition, placed) if named is None else named
        if found is None or not (named is None or found.applies(placed)):
            operands = ", ".join(layout.short() for layout in local.operand_layouts)
            results = ", ".join(layout.short() for layout in local.result_layouts)
            what = f"'{local.name}' has no algorithm that computes"
            if named is not None:
                what = f"algorithm '{named.name}' of '{local.name}' does not compute"
            error(
                local.operation,
                f"{what} {results} from {operands}; "
                "let dtensor-propagate choose layouts and algorithm",
            )
        return found

    def local_op(
        self,
        op: ir.Operation,
        name: str,
        results: Sequence[Value],
        layouts: tuple[Layout | None, ...],
    ) -> LocalOp:
        """What an algorithm sees of an op."""
        ctx = self.ctx
        operands = list(op.operands)
        operand_layouts = tuple([self.layout(value) for value in operands])
        operand_shapes = tuple(
            [
                self.global_shape(value.type, layout)
                for value, layout in zip(operands, operand_layouts, strict=True)
            ]
        )
        shapes: tuple[Shape, ...] = tuple([ctx.shape_of(result) for result in results])
        ctx.move_to(op)
        result_layouts = tuple([layout or self.scalar for layout in layouts])
        return LocalOp(op, name, operand_layouts, result_layouts, operand_shapes, shapes, ctx)

    def replace(
        self, op: ir.Operation, values: Sequence[Value], layouts: Sequence[Layout | None]
    ) -> None:
        """Put local values in the place of an op's results and erase it."""
        for result, value, layout in zip(op.results, values, layouts, strict=True):
            if layout is not None:
                wanted = self.local_type(result.type, layout)
                assert value.type == wanted, f"{op.name} became {value.type}, and not {wanted}"
                self._layouts[value] = layout
            result.replace_all_uses_with(value)
        op.erase()

    def relayout(self, op: ir.Operation) -> None:
        """Replace a relayout by the steps that carry it out."""
        attributes = op.attributes
        if RESULTS in attributes:
            after = self.array(attributes[RESULTS])[0]
        else:
            after = layout_of(attributes[LAYOUT_ATTR], self.meshes)
        assert after is not None
        after = after.closed()
        value = op.operands[0]
        before = self.layout(value).closed()
        self.ctx.move_to(op)
        shape = self.ctx.shape_of(op.results[0])
        found = expand_relayout(self.ctx, value, before, after, shape)
        if found == value and before != after:
            self.set_types(list(op.results), [after])
            self._as_they_are.append(op)
        else:
            self.replace(op, [found], [after])

    def erase_what_moves_nothing(self) -> None:
        """Read the operands of relayouts that change nothing, now that nobody asks for layouts."""
        for op in self._as_they_are:
            replace_op(op, op.operands)
        self._as_they_are.clear()

    def terminator(self, op: ir.Operation, wanted: Sequence[Layout | None]) -> None:
        """Check that a block passes on what its owner expects."""
        self.check(op, wanted)
        forget(op, RESULTS, OPERANDS, ALGORITHM)

    def check(self, op: ir.Operation, wanted: Sequence[Layout | None]) -> None:
        """Check that the operands have the layouts that were planned."""
        for i, (value, layout) in enumerate(zip(op.operands, wanted, strict=True)):
            have = self._layouts.get(value)
            if layout is not None and (have is None or have.closed() != layout.closed()):
                error(
                    op,
                    f"internal error: value {i} of '{op.name}' has layout {_short(have)}, but "
                    f"{layout.short()} was planned; a relayout is missing before it",
                )

    def loop(self, op: ir.Operation) -> None:
        """Expand a while: init, arguments, yields and results share their layouts."""
        layouts = self.results_of(op, op.results)
        self.check(op, layouts)
        condition, body = op.regions[0].blocks[0], op.regions[1].blocks[0]
        self.set_types(list(condition.arguments), layouts)
        self.set_types(list(body.arguments), layouts)
        self.block(condition, [self.scalar])
        self.block(body, layouts)
        self.set_types(op.results, layouts)
        forget(op, RESULTS, OPERANDS, ALGORITHM)

    def branches(self, op: ir.Operation) -> None:
        """Expand a case or an if: every branch gives the layouts of the results."""
        layouts = self.results_of(op, op.results)
        for region in op.regions:
            self.block(region.blocks[0], layouts)
        self.set_types(op.results, layouts)
        forget(op, RESULTS, OPERANDS, ALGORITHM)


def _short(layout: Layout | None) -> str:
    return "no layout" if layout is None else layout.short()
