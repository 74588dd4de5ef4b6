"""Fourier transforms on CPU, which want their operand and result row-major in memory.

XLA chooses an order per value, and lets a gather along a dimension that is not the first spread its
own to the transform beside it; XLA's CPU code then refuses ("IsMonotonicWithDim0Major"). So both
are constrained. For CPU alone: other code takes any order, and a TPU's cannot constrain a complex
value.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

from dtensor.dialect.mlir import ir


def constrain_transforms(operations: Iterable[ir.Operation]) -> None:
    """Put a constraint on the order in memory before and after each `stablehlo.fft`."""
    for op in operations:
        if op.name == "stablehlo.fft":
            before = _row_major(op.operands[0], op, ir.InsertionPoint(op))
            op.operands[0] = before.results[0]
            result = op.results[0]
            after = _row_major(result, op, ir.InsertionPoint.after(op))
            result.replace_all_uses_except(after.results[0], after)


def _row_major(
    value: ir.Value[Any], transform: ir.Operation, point: ir.InsertionPoint
) -> ir.Operation:
    rank = ir.RankedTensorType(value.type).rank
    order = ir.DenseElementsAttr.get(
        array("q", range(rank - 1, -1, -1)),
        type=ir.RankedTensorType.get([rank], ir.IndexType.get()),
    )
    return ir.Operation.create(
        "stablehlo.custom_call",
        results=[value.type],
        operands=[value],
        attributes={
            "call_target_name": ir.StringAttr.get("LayoutConstraint"),
            "operand_layouts": ir.ArrayAttr.get([order]),
            "result_layouts": ir.ArrayAttr.get([order]),
        },
        loc=transform.location,
        ip=point,
    )
