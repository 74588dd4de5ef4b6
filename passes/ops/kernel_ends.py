"""Kernels that were made longer: what is read behind their true end must not be infinite or NaN.

The gradient of a kernel is a convolution whose kernel is as long as the input. Where it is longer
than it was, it holds zeros there, and windows still read some true elements of the input at these
places: zero times infinity is no number. So the results of which that is so are computed one by
one, each of an input that is zero from where the true end of the kernel lies on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dtensor.dialect.ends import read_padding
from dtensor.dialect.mlir import Value, forget
from dtensor.dialect.names import STEPS
from dtensor.passes.creation import matrix_attr
from dtensor.passes.expansion.context import ExpansionContext, LocalOp
from dtensor.passes.expansion.indices import index_element
from dtensor.passes.ops.attributes import convolution_numbers, integers
from dtensor.passes.ops.elements import INEXACT, element_kind
from dtensor.passes.ops.opdef import Placed
from dtensor.passes.ops.padding import Grown
from dtensor.passes.ops.rule import Window, WindowDim
from dtensor.passes.ops.xla_convolutions import make_safe


def say_steps(op: Grown, windows: Sequence[Window], sizes: Mapping[int, tuple[int, int]]) -> None:
    """Say how many elements a longer kernel has in truth, and how many results read more.

    `sizes` has, by window that has become longer, elements of the input and results in truth.
    """
    if not op.has_end or element_kind(op.info.result_elements[0])[0] not in INEXACT:
        return
    said = [0] * (2 * len(windows))
    for row, (size, results) in sizes.items():
        window = windows[row]
        last = (size - 1) * window.base_dilation  # place of the last element
        if window.ends is not None:
            last += window.high
        behind = last - window.size * window.dilation + window.low
        reading = min(results, max(0, behind // window.stride + 1))
        said[2 * row : 2 * row + 2] = (window.size, reading) if reading else (0, 0)
    if any(said):
        op.set_integers(STEPS, said)


@dataclass(frozen=True)
class _Ended:
    """A window over a kernel that ends before it does.

    Attributes:
        dim: the window.
        end: the elements of this shard's part of the kernel in truth: a scalar.
        reading: how many of the first results read elements behind those.
        dims: the dimensions of the input, the kernel and the result.
    """

    dim: WindowDim
    end: Value
    reading: int
    dims: tuple[int, int, int]


def ended_results(
    op: LocalOp, placed: Placed, dims: Sequence[WindowDim], shape: Sequence[int]
) -> Value | None:
    """The results of a convolution over what was fetched; None if its kernel ends where it does.

    The padding of the op is that of what it reads; a shard's results have this shape.
    """
    if STEPS not in op.operation.attributes:
        return None
    said = integers(op.operation.attributes[STEPS])
    forget(op.operation, STEPS)
    numbers = convolution_numbers(op.operation)
    ended = []
    for dim in dims:
        true, reading = said[2 * dim.row : 2 * dim.row + 2]
        slot, d = dim.steps
        if reading and slot >= 0:
            where = dim.operand, d, numbers.output_spatial_dimensions[dim.row]
            more = shape[where[2]] - placed.op.result_shapes[0][where[2]]
            ended.append(_Ended(dim, _own_end(op.ctx, placed, dim, true), reading + more, where))
    rows = read_padding(op.operation, len(numbers.input_spatial_dimensions))
    return _results(op, op.operands[0], ended, rows, shape)


def _own_end(ctx: ExpansionContext, placed: Placed, dim: WindowDim, true: int) -> Value:
    """How many of the first `true` elements of a kernel are in this shard's part of it."""
    slot, d = dim.steps
    layout, size = placed.operands[slot], placed.op.operand_shapes[slot][d]
    element = index_element(size)
    end = ctx.constant(true, ctx.tensor_type((), element))
    offset = ctx.shard_offset(layout, d, size)
    if offset is None:
        return end
    end = ctx.binary("subtract", end, offset)
    return ctx.binary("minimum", ctx.binary("maximum", end, 0), size // layout.dims[d].split)


def _results(
    op: LocalOp,
    value: Value,
    ended: Sequence[_Ended],
    padding: Sequence[tuple[int, int]],
    shape: Sequence[int],
) -> Value:
    """The results of this shape of an input with this padding."""
    ctx = op.ctx
    if not ended:
        op.operation.operands[0] = value
        op.operation.attributes["padding"] = matrix_attr(padding)
        make_safe(ctx, op.operation)
        type_ = ctx.tensor_type(shape, op.result_element())
        result: Value = op.again(types=[type_]).results[0]
        return result
    one, *others = ended
    (d, of_kernel, of_result), row = one.dims, one.dim.row
    window, (low, high) = one.dim.window, padding[row]
    size, steps = ctx.shape_of(value)[d], ctx.shape_of(op.operands[1])[of_kernel]
    apart, step, gap = window.base_dilation, window.dilation, window.stride
    places = ctx.times(ctx.iota((size,), 0, ctx.element_of(one.end)), apart)

    def made(value: Value, first: int, count: int, high: int) -> Value:
        rows, part = list(padding), list(shape)
        rows[row], part[of_result] = (low - first * step, high), count
        return _results(op, value, others, rows, part)

    parts, count = [], min(one.reading, shape[of_result])
    for k in range(count):
        # The places of the elements that are multiplied with this shard's part of the true kernel.
        end = ctx.binary("add", ctx.times(one.end, gap), k * step - gap + 1 - low)
        inside = ctx.compare("LT", places, end)
        kept = ctx.select(inside, value, 0, [d])
        last = low - k * step + (size - 1) * apart  # place of the last element
        parts.append(made(kept, k, 1, (steps - 1) * gap - last))
    if count < shape[of_result]:
        parts.append(made(value, count, shape[of_result] - count, high))
    return ctx.joined(parts, of_result)
