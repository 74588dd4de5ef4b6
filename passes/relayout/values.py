"""The relayouts of a module of global shapes, and the layout of every value."""

from __future__ import annotations

from typing import Any

from dtensor.dialect import names
from dtensor.dialect.attributes import layout_of, layouts_array_attr, layouts_of_array
from dtensor.dialect.build import relayout
from dtensor.dialect.functions import functions
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import Value, ir, operation_of
from dtensor.passes.base import PassState
from dtensor.passes.functions import boundary_layouts
from dtensor.passes.ledger import FIRST_RECORD
from dtensor.passes.locations import tag, tagged_id
from dtensor.passes.ops.attributes import itemsize, shape_of
from dtensor.passes.program import WHILE, Scope, walk
from dtensor.passes.relayout.search import plan, steps_seconds
from dtensor.passes.relayout.steps import RelayoutStep, wire_bytes


class Relayouts:
    """The relayouts of one module, in program order, and what rewrites need to change them.

    Attributes:
        ops: the relayouts that are left, by number.
        scopes: per relayout, the block it stands in.
        in_order: how many were read; later ones were created and stand anywhere.
    """

    def __init__(self, module: ir.Module, state: PassState, meshes: dict[str, Mesh]) -> None:
        self.module = module
        self.state = state
        self.meshes = meshes
        self.cost = state.cost_model()
        self.ops: dict[int, ir.Operation] = {}
        self._numbers: dict[Value, int] = {}
        self.scopes: list[Scope] = []
        self._boundary: dict[ir.Operation, list[Layout | None]] = {}
        for function in functions(module):
            for op, name, scope in walk(function):
                if name == names.RELAYOUT:
                    self._add(op, scope)
        self.in_order = len(self.ops)

    def _add(self, op: ir.Operation, scope: Scope) -> None:
        number = len(self.scopes)
        self._numbers[op.results[0]] = number
        self.ops[number] = op
        self.scopes.append(scope)

    def relayout_of(self, value: Value) -> int | None:
        """The number of the relayout that made a value."""
        return self._numbers.get(value)

    # Layouts.

    def after(self, op: ir.Operation) -> Layout:
        """The layout a relayout gives."""
        return layout_of(op.attributes[names.LAYOUT_ATTR], self.meshes).closed()

    def layout(self, value: Value) -> Layout | None:
        """The layout of a value; None where the program does not say."""
        owner = value.owner
        if isinstance(owner, ir.Block):
            return self._argument_layout(value, owner.owner.operation)
        op = owner.operation
        if op.name == names.RELAYOUT:
            return self.after(op)
        return self._result_layout(op, ir.OpResult(value).result_number)

    def _argument_layout(self, value: Value, op: ir.Operation) -> Layout | None:
        number = ir.BlockArgument(value).arg_number
        if op.name == WHILE:
            return self._result_layout(op, number)
        if op.name != names.FUNC:
            return None
        if op not in self._boundary:
            self._boundary[op] = boundary_layouts(op, names.ARG_ATTRS, self.meshes)
        found = self._boundary[op][number]
        return None if found is None else found.closed()

    def _result_layout(self, op: ir.Operation, number: int) -> Layout | None:
        if names.RESULTS not in op.attributes:
            return None
        layouts = layouts_of_array(op.attributes[names.RESULTS], self.meshes)
        found = layouts[number] if number < len(layouts) else None
        return None if found is None else found.closed()

    # Costs.

    def seconds(self, value: Value, before: Layout, after: Layout) -> float:
        """Seconds of moving a value of this type from one layout to another."""
        return steps_seconds(self._steps(value, before, after), self.cost)

    def _steps(self, value: Value, before: Layout, after: Layout) -> tuple[RelayoutStep, ...]:
        return plan(before, after, shape_of(value), itemsize(value), self.cost)

    # Changes.

    def erase(self, number: int) -> None:
        """Erase a relayout that is not used."""
        op = self.ops.pop(number)
        del self._numbers[op.results[0]]
        op.erase()

    def replace(self, number: int, value: Value) -> None:
        """Use `value` in place of a relayout's result, and erase it."""
        self.ops[number].results[0].replace_all_uses_with(value)
        self.erase(number)

    def create(
        self, value: Value, after: Layout, point: ir.InsertionPoint, like: int, why: str
    ) -> Value:
        """A relayout of `value` in the scope of relayout `like`, with a record of its own."""
        location = self._location(self.ops[like].location, value, after, why)
        made = new_relayout(value, after, location, point)
        self._add(operation_of(made), self.scopes[like])
        return made

    def _location(self, old: ir.Location, value: Value, after: Layout, why: str) -> ir.Location:
        """The old location, with a record of why the relayout is now another."""
        number = tagged_id(old)
        before = self.layout(value)
        record = None
        if number is not None and number >= FIRST_RECORD:
            record = self.state.ledger.record(number)
        if record is None or before is None:
            return old
        steps = self._steps(value, before, after)
        made = self.state.ledger.add(
            "relayout",
            f"{record.text}; {why}",
            ops=record.ops,
            axes=record.axes,
            parents=(record.id,),
            before=before.asm(),
            after=after.asm(),
            bytes=wire_bytes(steps),
            seconds=steps_seconds(steps, self.cost),
            location=record.location,
            asked_for=record.asked_for,
        )
        inner: Any = old
        if isinstance(old, ir.FusedLoc):
            inner = next(iter(old.locations), old)
        return tag(inner, made.id)


def new_relayout(
    value: Value, after: Layout, location: ir.Location, point: ir.InsertionPoint
) -> Value:
    """A relayout that says, as every operation does, how its result is laid out."""
    made = relayout(value, after, location, point)
    attributes = operation_of(made).attributes
    attributes[names.RESULTS] = layouts_array_attr((after,))
    return made
