"""Windows over a split dimension: each shard multiplies its own elements with all that meets them.

What it finds of results that are its neighbours' it sends to them, and they add it: a convolution
to few channels sends few. Where the windows walk over the kernel, as in the gradient of one, it
fetches what else of the kernel meets its elements, and finds a part of the sum.

In the place of its neighbours' elements stand zeros. Zero times infinity is no number: what is
done where the kernel is not finite, which the program finds as it runs, is in `straddling.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dtensor.dialect.ends import read_padding, read_steps
from dtensor.dialect.mlir import Value, ir
from dtensor.dialect.names import STEPS
from dtensor.passes.creation import matrix_attr
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.ops.attributes import convolution_numbers, element_of
from dtensor.passes.ops.contraction import known_finite
from dtensor.passes.ops.exchanges import sent_beside
from dtensor.passes.ops.halo import exchange, split_windows
from dtensor.passes.ops.narrow import Narrow
from dtensor.passes.ops.opdef import Placed, Traffic
from dtensor.passes.ops.reduction import FLOAT_BITS, Reduction, reductions_of, sum_element
from dtensor.passes.ops.rule import WindowDim, element_bytes
from dtensor.passes.ops.straddling import Walk, unless_infinite
from dtensor.passes.ops.xla_convolutions import REVERSED, make_safe


@dataclass(frozen=True, slots=True)
class Overhang:
    """How far the windows that read elements of a shard go beyond the shard's own windows.

    Attributes:
        dim: the dimension that they walk over.
        of_kernel: the dimension of the kernel that is that of the window.
        of_result: the dimension of the result.
        local: elements of a shard.
        kept: windows of a shard.
        front: windows of the shard below that read elements of it.
        behind: windows of the shard above that do.
    """

    dim: WindowDim
    of_kernel: int
    of_result: int
    local: int
    kept: int
    front: int
    behind: int

    @property
    def windows(self) -> int:
        """How many windows read elements of a shard."""
        return self.front + self.kept + self.behind

    @property
    def sends(self) -> bool:
        """Whether there is a result for each window; else an element of the kernel."""
        return self.dim.steps[0] < 0

    @property
    def padding(self) -> tuple[int, int]:
        """That with which these windows walk over the elements of a shard."""
        window = self.dim.window
        low = window.low + self.front * window.stride
        return replace(window, low=low).padding(self.local, self.windows)


def overhangs(placed: Placed, dims: Sequence[WindowDim]) -> list[Overhang] | None:
    """Those of the split dimensions; None if some shard's neighbours alone do not suffice.

    `dims` are those in which windows do not tile, also the ones that are not split.
    """
    found = [_overhang(placed, dim) for dim in split_windows(placed, dims)]
    known = [one for one in found if one is not None]
    is_plain = all(dim.window.is_bare for dim in dims) and not placed.op.has(STEPS)
    return known if is_plain and found and len(known) == len(found) else None


def _overhang(placed: Placed, dim: WindowDim) -> Overhang | None:
    op, window, (slot, d) = placed.op, dim.window, dim.steps
    word = placed.operands[0].dims[dim.operand]
    size, steps, shards = op.operand_shapes[0][dim.operand], op.shape(slot)[d], word.split
    if not word.is_contiguous or placed.layout(slot).dims[d] != word:
        return None
    local, kept, gap = size // shards, steps // shards, window.base_dilation
    is_even = size == local * shards and steps == kept * shards
    if not (is_even and local and kept and kept * window.stride == local * gap):
        return None
    front = max(0, (window.reach - 1 - window.low) // window.stride)
    behind = max(0, (window.low + (local - 1) * gap) // window.stride - kept + 1)
    if max(front, behind) > kept:
        return None
    numbers = convolution_numbers(op.operation)
    rows = numbers.kernel_spatial_dimensions[dim.row], numbers.output_spatial_dimensions[dim.row]
    return Overhang(dim, *rows, local, kept, front, behind)


def multiplies_own(placed: Placed, dims: Sequence[WindowDim]) -> bool:
    """Whether shards may multiply their own elements, with what their neighbours add or have."""
    found = overhangs(placed, dims)
    if not found:
        return False
    element, result = placed.op.result_elements[0], placed.results[0]
    if not any(one.sends for one in found):
        return True
    # What is part of a sum over devices besides is added up before it is made narrower.
    is_wide = FLOAT_BITS.get(element, 32) >= 32 or not result.partial
    return is_wide and Reduction.SUM in reductions_of(element)


def own_bytes(placed: Placed, dims: Sequence[WindowDim]) -> Iterator[Traffic]:
    """What each shard is sent: of the kernel, then of results, of one dimension after another."""
    found = overhangs(placed, dims) or []
    operation, sending = placed.op.operation, [one for one in found if one.sends]
    item = element_bytes(element_of(Narrow.of(operation.operands[1]).value))
    shape = list(placed.shard(1))
    for one in found:
        if not one.sends:
            d = one.of_kernel
            what = d, one.front, one.behind
            yield _traffic(placed, one, math.prod(shape) / shape[d] * item, what)
            shape[d] = one.windows
    item = element_bytes(sum_element(placed.op.result_elements[0], None))
    shape = list(placed.shard(~0))
    for one in sending:
        shape[one.of_result] = one.windows
    for one in reversed(sending):
        d = one.of_result
        yield _traffic(placed, one, math.prod(shape) / shape[d] * item)
        shape[d] = one.kept


def _traffic(placed: Placed, one: Overhang, row: float, what: tuple[int, ...] = ()) -> Traffic:
    """What is sent of one dimension, of which a row has so many bytes."""
    axes = placed.operands[0].dims[one.dim.operand].axes
    count = (one.front > 0) + (one.behind > 0)
    return Traffic(axes, row * (one.front + one.behind), count, what, 1)


def spare_share(placed: Placed, dims: Sequence[WindowDim]) -> float:
    """How much more a shard computes than its own windows, as a share of those."""
    found = overhangs(placed, dims) or []
    return math.prod(one.windows / one.kept for one in found) - 1


def expand_own_elements(op: LocalOp, placed: Placed, dims: Sequence[WindowDim]) -> list[Value]:
    """The results of a convolution whose attributes are local but for those of its windows."""
    ctx, found = op.ctx, overhangs(placed, dims)
    assert found, "checked before"
    is_finite = known_finite(op.operation)[1]
    _fetch_kernel(op, placed, found)
    shape, element = list(placed.shard(~0)), op.result_element()
    sending = [one for one in found if one.sends]
    if sending:
        element = sum_element(element, None if ctx.state is None else ctx.state.reduce_element)
    for one in sending:
        shape[one.of_result] = one.windows
    type_ = ctx.tensor_type(shape, element)

    result = _convolved(op, op.operands[1], found, type_)
    if not is_finite:
        walks = [_walk(op, placed, one, shape) for one in found]

        def convolved(kernel: Value, finite: Value) -> Value:
            # Zero where this is computed; XLA would write what it knows to be zero as padding.
            zero = ctx.convert(finite, ctx.element_of(op.operands[0]))
            return _convolved(op, kernel, found, type_, zero)

        result = unless_infinite(ctx, op.operands[1], walks, result, convolved)
    for one in reversed(sending):
        axes = placed.operands[0].dims[one.dim.operand].axes
        result = sent_beside(ctx, result, axes, one.of_result, one.front, one.behind)
    return [ctx.convert(result, op.result_element())]


def _fetch_kernel(op: LocalOp, placed: Placed, found: Sequence[Overhang]) -> None:
    """Let the op read what else of its kernel meets the elements of a shard."""
    fetching = [one for one in found if not one.sends]
    narrow = Narrow.of(op.operands[1]) if fetching else Narrow(op.operands[1])
    value = narrow.value
    for one in fetching:
        axes = placed.operands[0].dims[one.dim.operand].axes
        value = exchange(op.ctx, value, axes, one.of_kernel, one.front, one.behind)
    op.operation.operands[1] = narrow.widened(op.ctx, value)


def _convolved(
    op: LocalOp,
    kernel: Value,
    found: Sequence[Overhang],
    type_: ir.Type,
    zero: Value | None = None,
) -> Value:
    """The convolution of the elements of a shard, with zeros around them.

    With `zero`, a scalar, it reads that there, and no padding, whose products XLA may leave out.
    """
    value, numbers = op.operands[0], convolution_numbers(op.operation)
    dims = numbers.input_spatial_dimensions
    rows = read_padding(op.operation, len(dims))
    for one in found:
        rows[one.dim.row] = one.padding
    if zero is not None:
        for row, gap in enumerate(read_steps(op.operation, "lhs_dilation", len(dims))):
            (low, high), size = rows[row], op.ctx.shape_of(value)[dims[row]]
            before, behind = max(0, low // gap), max(0, high // gap)
            value = op.ctx.lengthened(value, dims[row], before, before + size + behind, zero)
            rows[row] = low - before * gap, high - behind * gap
    with op.changed():
        op.operation.operands[0], op.operation.operands[1] = value, kernel
        op.operation.attributes["padding"] = matrix_attr(rows)
        make_safe(op.ctx, op.operation)
        result: Value = op.again(types=[type_]).results[0]
    return result


def _walk(op: LocalOp, placed: Placed, one: Overhang, shape: Sequence[int]) -> Walk:
    """How the convolution walks along a dimension, with results of this shape."""
    window, (low, _) = one.dim.window, one.padding
    steps = (window.stride, window.dilation)
    stride, dilation = steps if one.sends else steps[::-1]
    kernel, result = one.of_kernel, one.of_result
    is_reversed = False
    if REVERSED in op.operation.attributes:
        is_reversed = ir.DenseBoolArrayAttr(op.operation.attributes[REVERSED])[one.dim.row]
    return Walk(
        (kernel, op.ctx.shape_of(op.operands[1])[kernel]),
        (result, shape[result]),
        stride,
        dilation,
        window.base_dilation,
        low,
        low + one.local * window.base_dilation,
        is_reversed,
        placed.operands[0].dims[one.dim.operand].axes,
    )
