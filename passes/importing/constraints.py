"""Constraints, however they were written, as `dtensor.relayout`."""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.dialect import build
from dtensor.dialect.diagnostics import error
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import Value, ir, is_read, operation_of, ops_of, replace_op
from dtensor.passes.creation import place_behind
from dtensor.passes.functions import tensor_shape


def replace_by_relayout(op: ir.Operation, layout: Layout) -> None:
    """Put a `dtensor.relayout` in the place of an operation that constrains its operand.

    A constraint that nothing reads asks for nothing, and goes.

    Raises:
        LocatedError: the layout does not fit the operand.
    """
    new = _relayout(op, op.operands[0], layout, ir.InsertionPoint(op))
    replace_op(op, [new])
    if not is_read(new):
        operation_of(new).erase()


def constrain_operand(op: ir.Operation, layout: Layout) -> None:
    """Let everyone read the operand of an operation, which goes, through a `dtensor.relayout`.

    Raises:
        LocatedError: the layout does not fit the operand.
    """
    value = op.operands[0]
    new = _relayout(op, value, layout, place_behind(value)[0])
    op.erase()
    value.replace_all_uses_except(new, operation_of(new))
    if not is_read(new):
        operation_of(new).erase()


def constrain(op: ir.Operation, value: Value, layout: Layout) -> None:
    """Let everyone who reads a result of an operation read it through a `dtensor.relayout`.

    Raises:
        LocatedError: the layout does not fit the value.
    """
    if is_read(value):
        new = _relayout(op, value, layout, ir.InsertionPoint.after(op))
        value.replace_all_uses_except(new, operation_of(new))


def _relayout(op: ir.Operation, operand: Value, layout: Layout, at: ir.InsertionPoint) -> Value:
    problem = layout.problem(tensor_shape(operand.type) or (), uneven=True)
    if problem is not None:
        error(op, f"a constraint asks for the layout {layout.short()}: {problem}")
    return build.relayout(operand, layout, op.location, at)


def tie(values: Sequence[Value], at: ir.Operation) -> None:
    """Give values one layout in everything that reads them behind `at`, in its block or deeper.

    Raises:
        LocatedError: their shapes differ.
    """
    shapes = {str(value.type) for value in values}
    if len({tuple(tensor_shape(value.type) or ()) for value in values}) > 1:
        error(at, f"{' and '.join(sorted(shapes))} shall be laid out alike; give them one shape")
    block = at.block
    position = {op: i for i, op in enumerate(ops_of(block))}
    after = position[at]

    def reads_later(user: ir.Operation) -> bool:
        while user.block != block:
            if user.parent is None:
                return False
            user = user.parent.operation
        return position[user] > after

    readers = [[use for use in value.uses if reads_later(use.owner.operation)] for value in values]
    together = build.alike(values, at.location, ir.InsertionPoint(at))
    for result, uses in zip(together, readers, strict=True):
        for use in uses:
            use.owner.operands[use.operand_number] = result
