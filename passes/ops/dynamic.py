"""Slices whose place is computed: read and updated by the shards that own their elements."""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import Value
from dtensor.passes.creation import Shape
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.expansion.indices import index_element, signed_index
from dtensor.passes.ops import padding
from dtensor.passes.ops.attributes import splat_number
from dtensor.passes.ops.indexing import clamped
from dtensor.passes.ops.loops import take
from dtensor.passes.ops.opdef import Algorithm, OpDef, Placed, local
from dtensor.passes.ops.reduction import reductions_of
from dtensor.passes.ops.rule import OpInfo, OpRule, RuleBuilder

Masks = list[tuple[Value, Sequence[int]]]  # i1 tensors and the dimensions they are about


def dynamic_slice_rule(op: OpInfo) -> OpRule:
    """`ij,,->ij`; where only some `j` are taken `ij,,->ij` reduce `j`: a shard gives those it owns.

    It gives zero (false) for the others, so the result is a sum (an "or"). The start indices are
    scalars and complete; parts of the operand are cut each by itself.
    """
    builder = RuleBuilder(op)
    for d, size in enumerate(op.operand_shapes[0]):
        if op.result_shapes[0][d] == size:
            builder.share((0, d), (~0, d))
        else:
            builder.owned(d)
    builder.passes_each(
        reductions_of(op.result_elements[0]), [k == 0 for k in range(len(op.operand_shapes))]
    )
    return builder.build()


def dynamic_update_slice_rule(op: OpInfo) -> OpRule:
    """`ij,ij,,->ij`; where only some `j` are updated `ij,i.,,->ij`: each shard updates its own.

    Parts pass if both the operand and the update are parts, for elements are only moved.
    """
    builder = RuleBuilder(op)
    for d, size in enumerate(op.operand_shapes[0]):
        new = op.operand_shapes[1][d]
        builder.share((0, d), (~0, d), *[(1, d)] * (new == size), counts=new != size)
        if new != size:
            builder.whole(1, d, f"has {new} of {size} elements updated, from a computed place on")
    parts = [k < 2 for k in range(len(op.operand_shapes))]
    builder.passes_each(reductions_of(op.result_elements[0]), parts)
    return builder.build()


def _owned(layout: Layout, shape: Shape, window: Shape) -> list[int]:
    """The split dimensions of which only some elements are read or written."""
    return [d for d, dim in enumerate(layout.dims) if dim.split > 1 and shape[d] != window[d]]


def _reads_owned(placed: Placed) -> bool:
    if 0 in placed.op.result_shapes[0]:
        return False  # nobody owns nothing
    return bool(_owned(placed.operands[0], placed.op.operand_shapes[0], placed.op.result_shapes[0]))


def _updates_owned(placed: Placed) -> bool:
    if 0 in placed.op.operand_shapes[1]:
        return False
    return bool(_owned(placed.operands[0], *placed.op.operand_shapes[:2]))


def expand_dynamic_slice(op: LocalOp) -> None:
    """A dimension that is taken whole is taken whole from the shard.

    Starts beyond the end are moved back here already: XLA adds up the starts of a slice and of the
    slice of it that cuts a shard, and forgets that the first of them had an end of its own.
    """
    op.set_integers("slice_sizes", op.local_result_shape())
    for d, (size, kept) in enumerate(zip(op.operand_shapes[0], op.result_shapes[0], strict=True)):
        last = size - kept
        is_one = kept == 1 and last > 0  # nobody cuts that further
        if not is_one and not _is_within(op.operands[d + 1], last):
            start = clamped(op.ctx, op.operands[d + 1], last + 1)
            op.operation.operands[d + 1] = start


def _is_within(start: Value, last: int) -> bool:
    """Whether a start is a constant from 0 to `last`."""
    number = splat_number(start)
    return number is not None and 0 <= number <= last


def expand_update(op: LocalOp) -> Sequence[Value] | None:
    """Where nothing is written the operand stays: an empty window may be longer than its shard."""
    return op.operands[:1] if 0 in op.operand_shapes[1] else None


def expand_slice_by_owner(op: LocalOp) -> Sequence[Value]:
    """Each shard takes the elements that it owns, and -0 for the others."""
    ctx, layout, shape = op.ctx, op.operand_layouts[0], op.operand_shapes[0]
    window = op.result_shapes[0]
    owned = _owned(layout, shape, window)
    starts, masks = _starts(op, owned, op.operands[1:], window)
    many = [d for d in owned if window[d] > 1]
    sizes = list(op.local_result_shape())
    for d in many:
        sizes[d] = shape[d] // layout.dims[d].split
    value = ctx.dynamic_slice(op.operands[0], starts, sizes)
    for d in many:
        first = _first(op, op.operands[d + 1], shape[d] - window[d], starts[d])
        index = ctx.iota((window[d],), 0, ctx.element_of(first))
        index = ctx.binary("add", index, first)
        local_index, mine = ctx.localise_index(index, layout, d, shape[d])
        value = take(ctx, value, clamped(ctx, local_index, sizes[d]), d)
        masks.append((mine, [d]))
    for mask, dims in masks:
        value = ctx.select(mask, value, ctx.identity("sum", value.type), dims)
    return [value]


def expand_update_by_owner(op: LocalOp) -> Sequence[Value]:
    """Each shard updates the elements that it owns, and leaves the others.

    As many elements of the shard as are updated, around those that it owns, are read, chosen and
    written back; all of them if the shard has no more.
    """
    ctx, layout = op.ctx, op.operand_layouts[0]
    operand, update = op.operands[:2]
    shape, window = op.operand_shapes[:2]
    owned = _owned(layout, shape, window)
    starts, masks = _starts(op, owned, op.operands[2:], window)
    for d in owned:
        if window[d] == 1:
            continue
        first = _first(op, op.operands[d + 2], shape[d] - window[d], starts[d])
        index = _updated(op, d, first, starts)
        masks.append((ctx.within(index, 0, window[d]), [d]))
        update = take(ctx, update, clamped(ctx, index, window[d]), d)
    sizes = ctx.shape_of(update)
    old = ctx.dynamic_slice(operand, starts, sizes)
    for mask, dims in masks:
        update = ctx.select(mask, update, old, dims)
    return [ctx.updated(operand, update, starts)]


def _updated(op: LocalOp, dim: int, first: Value, starts: list[Value]) -> Value:
    """Which element of the update each element of the shard takes; one out of range takes none.

    The update begins at `first`. Where fewer elements than the shard has are updated, `starts[dim]`
    is set: where the shard is cut.
    """
    ctx, layout = op.ctx, op.operand_layouts[0]
    size, count = op.operand_shapes[0][dim], op.operand_shapes[1][dim]
    local, element = size // layout.dims[dim].split, ctx.element_of(first)
    if not layout.dims[dim].is_contiguous or count >= local:
        index = ctx.global_index(layout, dim, size, element)
        return ctx.binary("subtract", index, first)
    offset = ctx.shard_offset(layout, dim, size)
    assert offset is not None, "a dimension with owners is split"
    ahead = ctx.binary("subtract", first, ctx.convert(offset, element))
    starts[dim] = clamped(ctx, ahead, local - count + 1)
    behind = ctx.binary("subtract", starts[dim], ahead)
    index = ctx.iota((count,), 0, element)
    return ctx.binary("add", index, behind)


def _starts(
    op: LocalOp, owned: Sequence[int], given: Sequence[Value], window: Shape
) -> tuple[list[Value], Masks]:
    """Where the shard is cut, and whether it owns what it is cut for.

    An owned dimension is cut at the one element, or not at all if there are more.
    """
    ctx, layout, shape = op.ctx, op.operand_layouts[0], op.operand_shapes[0]
    starts: list[Value] = []
    masks: Masks = []
    for d, start in enumerate(given):
        start = clamped(ctx, start, shape[d] - window[d] + 1)
        if d in owned and window[d] == 1:
            start, mine = ctx.localise_index(start, layout, d, shape[d])
            start = clamped(ctx, start, shape[d] // layout.dims[d].split)
            masks.append((mine, []))
        elif d in owned:
            start = ctx.constant_like(0, start)
        starts.append(start)
    element = signed_index(index_element(max(shape)), *map(ctx.element_of, starts))
    return [ctx.convert(start, element) for start in starts], masks


def _first(op: LocalOp, start: Value, last: int, like: Value) -> Value:
    """A start index, at most `last`, in the type of `like`."""
    return op.ctx.convert(clamped(op.ctx, start, last + 1), op.ctx.element_of(like))


def lengthen_dynamic_slice(op: padding.Grown) -> None:
    """What is taken whole stays so; other slices still end at the true end."""
    op.set_integers("slice_sizes", op.results[0])
    _end_at_true_end(op, op.results[0], first=1)


def lengthen_update(op: padding.Grown) -> None:
    """Updates still end at the true end."""
    _end_at_true_end(op, op.operands[1], first=2)


def _end_at_true_end(op: padding.Grown, window: Shape, first: int) -> None:
    """Keep the start indices, operands from `first` on, so far ahead of the end as `window` is."""
    sizes = op.info.operand_shapes[0]
    for d, size in enumerate(sizes):
        if op.grows(0, d) and window[d] != op.operands[0][d]:
            op.keep_within(first + d, [size - window[d]])


DYNAMIC_SLICE = OpDef(
    dynamic_slice_rule,
    (
        Algorithm("by_owner", expand_slice_by_owner, _reads_owned),
        local(expand_dynamic_slice),
    ),
    fuses=True,
    moves_only=True,
    padding=padding.Padding(padding.indexing, lengthen_dynamic_slice),
)
DYNAMIC_UPDATE_SLICE = OpDef(
    dynamic_update_slice_rule,
    (Algorithm("by_owner", expand_update_by_owner, _updates_owned), local(expand_update)),
    in_place=True,
    moves_only=True,
    padding=padding.Padding(refit=lengthen_update),
)
