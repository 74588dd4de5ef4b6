"""Windows over a split dimension: each shard fetches what its windows read of others.

Where the first of them lies in its own shard does not move from shard to shard if the stride cuts
the dimension into the results. Shards whose results begin between two elements compute more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from dtensor.dialect.attributes import index_attr
from dtensor.dialect.axes import AxisRef
from dtensor.dialect.dim import Dim
from dtensor.dialect.ends import MODES, WRAP, read_padding
from dtensor.dialect.mlir import Value, forget, ir
from dtensor.dialect.names import AXES, DIM, ENDS, HALO_EXCHANGE, HIGH, LOW
from dtensor.passes.creation import matrix_attr, with_sizes
from dtensor.passes.expansion.context import Expander, ExpansionContext, LocalOp
from dtensor.passes.expansion.indices import index_element
from dtensor.passes.ops.ends import Around, surrounded, zero_behind
from dtensor.passes.ops.exchanges import from_beside
from dtensor.passes.ops.folds import fold_bytes, fold_fits, folded_results
from dtensor.passes.ops.narrow import Narrow, sent_bytes
from dtensor.passes.ops.opdef import Algorithm, Placed, Traffic
from dtensor.passes.ops.reach import WindowReach, reach
from dtensor.passes.ops.rule import OpInfo, WindowDim

Find = Callable[[OpInfo], list[WindowDim]]


def halo(expand: Expander, find: Find) -> Algorithm:
    """Shards fetch what their windows read of others, along the dimensions that `find` gives."""
    return Algorithm(
        "halo",
        expand,
        lambda placed: reaches(placed, find(placed.op)),
        lambda placed: tuple(halo_bytes(placed, find(placed.op))),
    )


def without_halo(find: Find) -> Callable[[Placed], bool]:
    """Whether no such dimension is split."""
    return lambda placed: not split_windows(placed, find(placed.op))


def split_windows(placed: Placed, dims: Sequence[WindowDim]) -> list[WindowDim]:
    """Those of the dimensions that are split."""
    return [dim for dim in dims if placed.operands[0].dims[dim.operand].split > 1]


def reaches(placed: Placed, dims: Sequence[WindowDim]) -> bool:
    """Whether some of the dimensions are split, and a halo is all that their shards need."""
    split = split_windows(placed, dims)
    return bool(split) and all(
        placed.operands[0].dims[dim.operand].is_contiguous
        and _stepped(placed, dim) == placed.operands[0].dims[dim.operand]
        and _reach(placed, dim) is not None
        for dim in split
    )


def _stepped(placed: Placed, dim: WindowDim) -> Dim:
    slot, d = dim.steps
    return placed.layout(slot).dims[d]


def _sizes(placed: Placed, dim: WindowDim) -> tuple[int, int]:
    """Elements of a dimension, and windows over it."""
    op, (slot, d) = placed.op, dim.steps
    return op.operand_shapes[0][dim.operand], op.shape(slot)[d]


def _reach(placed: Placed, dim: WindowDim) -> WindowReach | None:
    split = placed.operands[0].dims[dim.operand].split
    # From all others it is a gather, which an axis may do that moves elsewhere at less cost.
    hops = max(1, split // 2) if dim.window.is_bare else 1
    found = reach(*_sizes(placed, dim), dim.window, split, hops, dim.may_spare)
    if found is None or (dim.window.ends is not None and not _around(placed, dim, found).fits):
        return None
    return found if fold_fits(dim.window.folds, _sizes(placed, dim)[1], split) else None


def _reached(placed: Placed, dim: WindowDim) -> WindowReach:
    found = _reach(placed, dim)
    assert found is not None, "a halo of more than shards may be asked for"
    return found


def _around(placed: Placed, dim: WindowDim, found: WindowReach | None) -> Around:
    """What stands around a dimension, with what a shard reads of it; None if it is whole."""
    split = placed.operands[0].dims[dim.operand].split
    return Around.of(dim.window, *_sizes(placed, dim), split, found)


def halo_bytes(placed: Placed, dims: Sequence[WindowDim]) -> Iterator[Traffic]:
    """What each shard is sent of each split dimension of the operands, one for each result.

    Args:
        placed: the op.
        dims: the dimensions, those that are not split too.
    """
    layout, size = placed.operands[0], sent_bytes(placed.op)
    local = list(placed.shard(0))
    is_shared = len(placed.results) == 1
    modes: tuple[int, ...] = ()  # what stands around the dimensions so far
    for dim in split_windows(placed, dims):
        found = _reached(placed, dim)
        row = math.prod(n for d, n in enumerate(local) if d != dim.operand) * size
        high = found.high
        if dim.window.ends is not None:
            around = _around(placed, dim, found)
            high = around.fetched
            modes = (*modes, dim.operand, MODES.index(around.ends.mode), around.behind)
            # What ends inside of a shard is sent from there, which each op chooses for itself.
            is_shared &= around.ends.mode != WRAP or around.ends.size is None
        wire = row * (found.low + high)
        word = layout.dims[dim.operand]
        what = (dim.operand, found.low, high, *modes) if is_shared else ()
        yield Traffic(word.axes, wire, (found.low > 0) + (high > 0), what)
        is_shared &= found.length == local[dim.operand] + found.low + found.high
        is_shared &= not any(found.margins)
        local[dim.operand] = found.length
    yield from fold_bytes(placed, dims)


def fetched(
    ctx: ExpansionContext,
    value: Value,
    placed: Placed,
    dims: Sequence[WindowDim],
    fill: Value | None,
) -> Value:
    """What the windows of this shard read, along those of the dimensions that are split.

    The value is laid out as operand 0; in the padding stands `fill`, a scalar, or zero. It comes in
    the narrowest type that it had, and is filled when all has come: what others need of it is then
    the same for all that read the value.
    """
    split = split_windows(placed, dims)
    narrow = Narrow.of(value) if split else Narrow(value)
    value = narrow.value
    for dim in split:
        value = _fetched_along(ctx, value, placed, dim)
    value = narrow.widened(ctx, value)
    shape = ctx.shape_of(value)
    masks = [is_inside(ctx, placed, dim, shape) for dim in split] if fill is not None else []
    inside = [mask for mask in masks if mask is not None]
    if fill is None or not inside:
        return value
    return ctx.select(ctx.combined("and", inside), value, fill)


def _fetched_along(ctx: ExpansionContext, value: Value, placed: Placed, dim: WindowDim) -> Value:
    """What windows read of one dimension; its padding is zero, if not of elements of its own."""
    word, found = placed.operands[0].dims[dim.operand], _reached(placed, dim)
    if dim.window.ends is None:
        value = exchange(ctx, value, word.axes, dim.operand, found.low, found.high)
        value = ctx.lengthened(value, dim.operand, found.margins[0], found.framed)
    else:
        around = _around(placed, dim, found)
        value = surrounded(ctx, value, word.axes, dim.operand, around)
        if dim.steps[0] >= 0:  # a kernel that is zero there must not meet what is no number
            value = zero_behind(ctx, value, word.axes, around)
    shard = ctx.axis_index(word.axes)
    if ctx.shape_of(value)[dim.operand] != found.length:
        start = _begun(ctx, shard, found, found.first, found.local)
        value = ctx.stretch(value, dim.operand, start, found.length)
    return value


def is_inside(
    ctx: ExpansionContext, placed: Placed, dim: WindowDim, shape: Sequence[int]
) -> Value | None:
    """Which elements of what windows read, of this shape, are not in the padding; None if all."""
    word, (size, _) = placed.operands[0].dims[dim.operand], _sizes(placed, dim)
    found = _reached(placed, dim)
    if dim.window.ends is not None or not found.is_padded(size, word.split):
        return None
    wide = index_element(size + found.length)
    index, shard = ctx.iota((found.length,), 0, wide), ctx.axis_index(word.axes)
    first = _begun(ctx, ctx.convert(shard, wide), found, found.origin, 0)
    index = ctx.binary("add", index, first)
    return ctx.broadcast(ctx.within(index, 0, size), shape, [dim.operand])


def _begun(
    ctx: ExpansionContext, shard: Value, found: WindowReach, first: int, local: int
) -> Value:
    """Where a shard begins to read: shard 0 at `first`, others later by less `local` for each."""
    moved = ctx.times(shard, found.places // found.apart - local)
    if found.spare:
        further = ctx.over(ctx.times(shard, found.places % found.apart), found.apart)
        moved = ctx.binary("add", moved, further)
    return ctx.binary("add", moved, first)


def exchange(
    ctx: ExpansionContext, value: Value, axes: Sequence[AxisRef], dim: int, low: int, high: int
) -> Value:
    """A shard behind the last `low` elements of those below it, before `high` of those above."""
    if not low and not high:
        return value
    shape, element = ctx.read_type(value.type)
    if max(low, high) > shape[dim]:
        below, above = (_from_far(ctx, value, axes, dim, count) for count in (-low, high))
        return ctx.joined([*below, value, *above], dim)
    attributes = {
        AXES: ctx.axes(axes),
        DIM: index_attr(dim),
        LOW: index_attr(low),
        HIGH: index_attr(high),
    }
    type_ = ctx.tensor_type(with_sizes(shape, dim, shape[dim] + low + high), element)
    return ctx.value(HALO_EXCHANGE, [value], type_, attributes)


def _from_far(
    ctx: ExpansionContext, value: Value, axes: Sequence[AxisRef], dim: int, count: int
) -> list[Value]:
    """The first `count` elements of the shards above; of those below if negative, the last."""
    local, found = ctx.shape_of(value)[dim], list[Value]()
    for hop in range(1, -(-abs(count) // local) + 1):
        taken = min(local, abs(count) - (hop - 1) * local)
        rows = ctx.cut(value, dim, 0 if count > 0 else local - taken, taken)
        found.append(from_beside(ctx, rows, axes, hop if count > 0 else -hop))
    return found if count > 0 else found[::-1]


def fetch_all(
    op: LocalOp,
    placed: Placed,
    dims: Sequence[WindowDim],
    count: int,
    fills: Sequence[Value | None],
) -> None:
    """Let an op read what its windows read of all dimensions, and pad that.

    `dims` has the dimensions that are not split too, of `count` windows; `fills`, for each operand
    that they walk over, what stands in its padding, as `fetched` has it.
    """
    for k, fill in enumerate(fills):
        value = fetched(op.ctx, op.operands[k], placed, dims, fill)
        for dim in dims:
            is_whole = placed.operands[0].dims[dim.operand].split == 1
            if is_whole and dim.window.ends is not None:
                value = surrounded(op.ctx, value, (), dim.operand, _around(placed, dim, None))
                value = op.ctx.cut(value, dim.operand, 0, _read_of_whole(placed, dim))
        op.operation.operands[k] = value
    op.operation.attributes["padding"] = _padding(placed, dims, count)
    forget(op.operation, ENDS)


def _padding(placed: Placed, dims: Sequence[WindowDim], count: int) -> ir.Attribute:
    """The attribute `padding` of the op on what was fetched along `dims`; it has `count` rows."""
    rows = read_padding(placed.op.operation, count)
    for dim in dims:
        window, gap = dim.window, dim.window.base_dilation
        if placed.operands[0].dims[dim.operand].split > 1:
            rows[dim.row] = _reached(placed, dim).pads
        elif window.ends is not None:
            rows[dim.row] = window.low % gap, window.high % gap
    return matrix_attr(rows)


def _read_of_whole(placed: Placed, dim: WindowDim) -> int:
    """How many elements windows read of a whole dimension and of what is around it.

    XLA takes a window of one element for the element, and overlooks padding that is negative.
    """
    window = dim.window
    around, size = _around(placed, dim, None), placed.op.operand_shapes[0][dim.operand]
    return around.low + size + around.high + min(0, window.high) // window.base_dilation


def spared_shape(placed: Placed, dims: Sequence[WindowDim], numbers: Sequence[int]) -> list[int]:
    """The shape of a shard's results with those that it computes besides its own.

    `numbers` has, by row of a window, the dimension of the results that it walks along.
    """
    shape = list(placed.shard(~0))
    for dim, found in _spares(placed, dims):
        shape[numbers[dim.row]] += found.spare
    return shape


def own_results(
    ctx: ExpansionContext,
    values: Sequence[Value],
    placed: Placed,
    dims: Sequence[WindowDim],
    numbers: Sequence[int],
) -> list[Value]:
    """Of the results that a shard computed, its own; arguments as `spared_shape`."""
    own = list(values)
    for dim, found in _spares(placed, dims):
        d, shard = numbers[dim.row], ctx.axis_index(placed.operands[0].dims[dim.operand].axes)
        between = ctx.modulo(ctx.times(shard, found.places % found.apart), found.apart)
        count = ctx.shape_of(own[0])[d] - found.spare
        own = [ctx.stretch(value, d, between, count) for value in own]
    return own


def window_results(
    op: LocalOp, placed: Placed, dims: Sequence[WindowDim], numbers: Sequence[int]
) -> list[Value] | None:
    """The results of windows over what was fetched; None where they are those of the op alone."""
    shape = spared_shape(placed, dims, numbers)
    results = folded_results(op, dims, shape, len(numbers))
    if results is None:
        if tuple(shape) == op.local_result_shape():
            return None
        elements = map(op.result_element, range(len(op.result_layouts)))
        types = [op.ctx.tensor_type(shape, element) for element in elements]
        results = list(op.again(types=types).results)
    return own_results(op.ctx, results, placed, dims, numbers)


def _spares(placed: Placed, dims: Sequence[WindowDim]) -> list[tuple[WindowDim, WindowReach]]:
    """The dimensions along which shards compute more results than their own."""
    found = [(dim, _reach(placed, dim)) for dim in split_windows(placed, dims)]
    return [(dim, one) for dim, one in found if one is not None and one.spare]
