"""Constraints, however they were written, as `dtensor.relayout`."""

from __future__ import annotations

from dtensor.dialect.attributes import layout_attr
from dtensor.dialect.diagnostics import error
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import ir
from dtensor.dialect.names import LAYOUT_ATTR, RELAYOUT
from dtensor.passes.functions import tensor_shape


def replace_by_relayout(op: ir.Operation, layout: Layout) -> None:
    """Put a `dtensor.relayout` in the place of an operation that constrains its operand.

    Raises:
        LocatedError: the layout does not fit the operand.
    """
    operand = op.operands[0]
    problem = layout.problem(tensor_shape(operand.type) or ())
    if problem is not None:
        error(op, f"a constraint asks for the layout {layout.short()}: {problem}")
    new = ir.Operation.create(
        RELAYOUT,
        results=[op.results[0].type],
        operands=[operand],
        attributes={LAYOUT_ATTR: layout_attr(layout)},
        loc=op.location,
        ip=ir.InsertionPoint(op),
    )
    op.results[0].replace_all_uses_with(new.results[0])
    op.erase()
