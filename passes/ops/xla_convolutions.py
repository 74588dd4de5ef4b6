"""Convolutions in a form that XLA for CPU takes: it must not read or swap operands wrongly."""

from __future__ import annotations

from dtensor.dialect.ends import read_padding, read_steps
from dtensor.dialect.mlir import ir
from dtensor.passes.creation import matrix_attr
from dtensor.passes.expansion.context import ExpansionContext
from dtensor.passes.ops.attributes import convolution_numbers

REVERSED = "window_reversal"


def make_safe(ctx: ExpansionContext, operation: ir.Operation) -> None:
    """Write a convolution so that XLA neither reads beyond its input nor ends the process."""
    _crop_input(ctx, operation)
    _reverse_kernel(ctx, operation)


def _crop_input(ctx: ExpansionContext, operation: ir.Operation) -> None:
    """Write negative padding as slices: XLA reads beyond inputs that few windows read."""
    numbers = convolution_numbers(operation)
    rows = read_padding(operation, len(numbers.input_spatial_dimensions))
    if min(map(min, rows), default=0) >= 0:
        return
    value, apart = operation.operands[0], read_steps(operation, "lhs_dilation", len(rows))
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


def _reverse_kernel(ctx: ExpansionContext, operation: ir.Operation) -> None:
    """Walk backwards along a kernel that XLA would take for one of groups, and turn it round.

    Where a kernel is larger than the input, as it may be of a shard, XLA swaps the two. Of what has
    no padding, and elements as far apart as the kernel is long, it then takes for granted that the
    input is as long, and fails a check, which ends the process.
    """
    numbers = convolution_numbers(operation)
    places, inputs = numbers.kernel_spatial_dimensions, numbers.input_spatial_dimensions
    value, kernel = operation.operands
    sizes = [ctx.shape_of(kernel)[d] for d in places]
    given = [ctx.shape_of(value)[d] for d in inputs]
    if not any(size > count for size, count in zip(sizes, given, strict=True)):
        return
    count = len(sizes)
    steps = (read_steps(operation, name, count) for name in ("lhs_dilation", "window_strides"))
    walks = zip(sizes, *steps, read_padding(operation, count), strict=True)
    turned = [
        d
        for d, (size, apart, stride, pads) in enumerate(walks)
        if size == apart == stride + 1 and size != given[d] and not any(pads)
    ]
    flags = [False] * count
    if REVERSED in operation.attributes:
        flags = list(ir.DenseBoolArrayAttr(operation.attributes[REVERSED]))
    for d in turned:
        if not flags[d]:
            kernel, flags[d] = ctx.reversed(kernel, places[d]), True
    if turned:
        operation.operands[1] = kernel
        operation.attributes[REVERSED] = ir.DenseBoolArrayAttr.get(flags)
