"""Windows over a split dimension: each shard fetches what its windows read of its neighbours.

Shard r makes the results from `r * kept` on, so it reads the elements from
`r * kept * stride - low` on. Where the first of them lies in its own shard moves by the same number
from shard to shard, and does not move at all if the stride cuts the dimension into the results.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dtensor.dialect.attributes import index_attr
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import ir
from dtensor.dialect.names import AXES, DIM, HALO_EXCHANGE, HIGH, LOW
from dtensor.passes.expansion.context import ExpansionContext
from dtensor.passes.expansion.indices import index_element
from dtensor.passes.ops.opdef import Placed, Traffic
from dtensor.passes.ops.rule import Window

Value = ir.Value[Any]


class WindowDim(NamedTuple):
    """A dimension over which windows overlap, are padded or leave gaps.

    Attributes:
        operand: the dimension of operand 0.
        result: the dimension of result 0.
        row: which window of the op it is.
        window: how the window walks.
    """

    operand: int
    result: int
    row: int
    window: Window


@dataclass(frozen=True, slots=True)
class Reach:
    """What the windows of each shard read of one dimension, in elements.

    Attributes:
        low: fetched from the lower neighbour.
        high: fetched from the upper neighbour.
        first: where shard 0 begins to read, counted from the first element fetched.
        step: by how much the next shard begins later.
        length: how many are read.
        origin: place of shard 0's first element in the tensor; negative in the padding.
        advance: elements of the tensor from one shard's first element to the next one's.
    """

    low: int
    high: int
    first: int
    step: int
    length: int
    origin: int
    advance: int


def reach(size: int, results: int, window: Window, shards: int) -> Reach | None:
    """What shards of a dimension read; None if they need more than their direct neighbours have.

    Args:
        size: elements of the dimension.
        results: number of windows.
        window: how the window walks.
        shards: into how many the dimension and the results are cut.
    """
    if window.base_dilation != 1 or size % shards or results % shards or not results:
        return None
    local, advance = size // shards, results // shards * window.stride
    length = advance - window.stride + window.reach
    starts = (-window.low, (shards - 1) * (advance - local) - window.low)
    low, high = max(0, -min(starts)), max(0, max(starts) + length - local)
    if max(low, high) > local:
        return None
    return Reach(low, high, low - window.low, advance - local, length, -window.low, advance)


def split_windows(placed: Placed, dims: Sequence[WindowDim]) -> list[WindowDim]:
    """Those of the dimensions that are split."""
    return [dim for dim in dims if placed.operands[0].dims[dim.operand].split > 1]


def reaches(placed: Placed, dims: Sequence[WindowDim]) -> bool:
    """Whether some of the dimensions are split, and a halo is all that their shards need."""
    split = split_windows(placed, dims)
    return bool(split) and all(
        placed.operands[0].dims[dim.operand].is_contiguous
        and placed.results[0].dims[dim.result] == placed.operands[0].dims[dim.operand]
        and _reach(placed, dim) is not None
        for dim in split
    )


def _reach(placed: Placed, dim: WindowDim) -> Reach | None:
    size, results = placed.op.operand_shapes[0][dim.operand], placed.op.result_shapes[0][dim.result]
    return reach(size, results, dim.window, placed.operands[0].dims[dim.operand].split)


def halo_bytes(placed: Placed, dims: Sequence[WindowDim], operands: int = 1) -> Iterator[Traffic]:
    """What each shard is sent of each split dimension of the first `operands` operands."""
    from dtensor.passes.graph import element_bytes  # the graph reads the table of operations

    layout = placed.operands[0]
    local = list(layout.local_shape(placed.op.operand_shapes[0]))
    size = sum(map(element_bytes, placed.op.operand_elements[:operands]))
    for dim in split_windows(placed, dims):
        found = _reach(placed, dim)
        assert found is not None, "priced where it does not apply"
        row = math.prod(n for d, n in enumerate(local) if d != dim.operand) * size
        wire = row * (found.low + found.high)
        yield Traffic(layout.dims[dim.operand].axes, wire, (found.low > 0) + (found.high > 0))
        local[dim.operand] = found.length


def fetch(
    ctx: ExpansionContext,
    value: Value,
    layout: Layout,
    dim: WindowDim,
    sizes: tuple[int, int],
    fill: Value | None = None,
) -> Value:
    """What the windows of this shard read of one dimension.

    Args:
        ctx: where to create operations.
        value: the shard.
        layout: of the tensor.
        dim: the dimension.
        sizes: elements of the whole dimension, and number of windows.
        fill: scalar that stands in the padding; None for zero.
    """
    word = layout.dims[dim.operand]
    found = reach(*sizes, dim.window, word.split)
    assert found is not None, "a halo of more than the direct neighbours"
    shape, element = list(ctx.shape_of(value)), ctx.element_of(value)
    if found.low or found.high:
        shape[dim.operand] += found.low + found.high
        attributes = {
            AXES: ctx.axes(word.axes),
            DIM: index_attr(dim.operand),
            LOW: index_attr(found.low),
            HIGH: index_attr(found.high),
        }
        value = ctx.value(HALO_EXCHANGE, [value], ctx.tensor_type(shape, element), attributes)
    shard = ctx.axis_index(word.axes)
    if shape[dim.operand] != found.length:
        zero = ctx.constant_like(0, shard)
        start = ctx.binary(
            "add", ctx.times(shard, found.step), ctx.constant_like(found.first, shard)
        )
        starts = [start if d == dim.operand else zero for d in range(len(shape))]
        shape[dim.operand] = found.length
        sliced = {"slice_sizes": ir.DenseI64ArrayAttr.get(shape)}
        type_ = ctx.tensor_type(shape, element)
        value = ctx.value("stablehlo.dynamic_slice", [value, *starts], type_, sliced)
    if fill is None or not _is_padded(found, sizes[0], word.split):
        return value
    wide = index_element(sizes[0] + found.length)
    index, shard = ctx.iota((found.length,), 0, wide), ctx.convert(shard, wide)
    first = ctx.binary(
        "add", ctx.times(shard, found.advance), ctx.constant_like(found.origin, shard)
    )
    index = ctx.binary("add", index, ctx.broadcast(first, (found.length,)))
    inside = ctx.binary(
        "and",
        ctx.compare("GE", index, ctx.constant_like(0, index)),
        ctx.compare("LT", index, ctx.constant_like(sizes[0], index)),
    )
    mask = ctx.broadcast(inside, shape, [dim.operand])
    return ctx.select(mask, value, ctx.broadcast(fill, shape))


def _is_padded(found: Reach, size: int, shards: int) -> bool:
    """Whether some window reads beyond the tensor."""
    end = found.origin + (shards - 1) * found.advance + found.length
    return found.origin < 0 or end > size


def without_padding(padding: ir.Attribute, dims: Sequence[WindowDim]) -> ir.Attribute:
    """The attribute `dense<[[low, high], ...]>` with nothing to pad along `dims`."""
    given = ir.DenseIntElementsAttr(padding)
    rows = [given[i] for i in range(len(given))]
    for dim in dims:
        rows[2 * dim.row : 2 * dim.row + 2] = [0, 0]
    pairs = [f"[{low}, {high}]" for low, high in zip(rows[::2], rows[1::2], strict=True)]
    return ir.Attribute.parse(f"dense<[{', '.join(pairs)}]> : tensor<{len(pairs)}x2xi64>")
