"""Inputs of convolutions that are cropped: XLA for CPU reads beyond those that few windows read."""

from __future__ import annotations

from dtensor.dialect.ends import read_padding
from dtensor.dialect.mlir import ir, stablehlo
from dtensor.passes.builder import matrix_attr
from dtensor.passes.expansion.context import ExpansionContext
from dtensor.passes.ops.attributes import integers


def crop_input(ctx: ExpansionContext, operation: ir.Operation) -> None:
    """Write negative padding of a convolution as slices of its input."""
    numbers = stablehlo.ConvDimensionNumbers(operation.attributes["dimension_numbers"])
    rows = read_padding(operation, len(numbers.input_spatial_dimensions))
    if min(map(min, rows), default=0) >= 0:
        return
    value, given = operation.operands[0], operation.attributes
    apart = integers(given["lhs_dilation"]) if "lhs_dilation" in given else [1] * len(rows)
    for row, (dim, step) in enumerate(zip(numbers.input_spatial_dimensions, apart, strict=True)):
        # Elements are `step` places apart: with the last one cropped, some places may go too far.
        first, last = (-(min(pad, 0) // step) for pad in rows[row])
        size = ctx.shape_of(value)[dim]
        if first + last < size:
            value = ctx.cut(value, dim, first, size - first - last)
            low, high = rows[row]
            rows[row] = low + first * step, high + last * step
    operation.operands[0] = value
    operation.attributes["padding"] = matrix_attr(rows)
