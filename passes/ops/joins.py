"""Concatenations, slices and pads along a dimension that is split alike before and after.

The shards join or cut what they have, and send one another the pieces that belong elsewhere: of
each element one copy, in rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dtensor.dialect.mlir import Value
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.expansion.indices import index_element
from dtensor.passes.ops.attributes import integer
from dtensor.passes.ops.cut_dims import cuts_of
from dtensor.passes.ops.exchanges import in_rounds
from dtensor.passes.ops.opdef import Placed, Traffic, placed_of
from dtensor.passes.ops.rounds import (
    MOST_SHARDS,
    PermuteRound,
    elements_sent,
    rounds_of_cut,
    rounds_of_join,
)
from dtensor.passes.ops.rule import FactorKind, OpInfo, OpRule, RuleBuilder, read_once
from dtensor.passes.ops.shape import pass_all


def join_exchange_rules(op: OpInfo) -> tuple[OpRule, ...]:
    """`ij,ij->ij`, the joined dimension split at equal places of each part; none if one is empty.

    What a shard has of the parts is not what it must have of the result: it takes an algorithm.
    None for equal parts too: their join is blocks, which a relayout moves as well; and for those
    that no number of shards divides.
    """
    joined = integer(op.attribute("dimension"))
    sizes = {shape[joined] for shape in op.operand_shapes}
    if len(sizes) < 2 or 0 in sizes or math.gcd(*sizes) == 1:
        return ()
    builder = RuleBuilder(op)
    for d, size in enumerate(op.result_shapes[0]):
        kind = FactorKind.WINDOW if d == joined else None
        builder.share(*builder.everywhere(d), size=size, kind=kind)
    pass_all(builder, len(op.operand_shapes))
    return (builder.build(),)


def cut_exchange_rules(op: OpInfo, dim: int) -> tuple[OpRule, ...]:
    """`ij->ij` of a slice, `ij,->ij` of a pad; none where no number of shards divides `dim`."""
    sizes = op.operand_shapes[0][dim], op.result_shapes[0][dim]
    if 0 in sizes or math.gcd(*sizes) == 1:
        return ()
    builder = RuleBuilder(op)
    for d in range(len(op.operand_shapes[0])):
        builder.share((0, d), (~0, d), kind=FactorKind.WINDOW if d == dim else None)
    pass_all(builder, len(op.operand_shapes))
    return (builder.build(),)


@read_once
def cut_dim(op: OpInfo) -> int | None:
    """The one dimension of which a slice or a pad keeps one stretch; None of any other."""
    cuts = [(d, cut) for d, cut in enumerate(cuts_of(op)) if cut.before != cut.after or cut.low]
    is_stretch = len(cuts) == 1 and cuts[0][1].step == 1 and cuts[0][1].after > 0
    return cuts[0][0] if is_stretch else None


def joins_in_rounds(placed: Placed) -> bool:
    """Whether the joined dimension is split alike in all parts, which are not empty, and result."""
    return len(placed.operands) > 1 and _is_alike(placed, _joined_dim(placed.op))


def cuts_in_rounds(placed: Placed) -> bool:
    """Whether the one dimension that is cut is split alike before and after."""
    dim = cut_dim(placed.op)
    return dim is not None and _is_alike(placed, dim)


def _is_alike(placed: Placed, dim: int) -> bool:
    word = placed.results[0].dims[dim]
    shapes = *placed.op.operand_shapes, *placed.op.result_shapes
    sizes = [shape[dim] for shape in shapes if shape]  # what pads is a scalar
    return (
        1 < word.split <= MOST_SHARDS
        and word.is_contiguous
        and all(layout.dims[dim] == word for layout in placed.operands if layout.dims)
        and all(size and size % word.split == 0 for size in sizes)
    )


def join_bytes(placed: Placed) -> tuple[Traffic, ...]:
    """As much as the shard that has most to send or to receive."""
    dim = _joined_dim(placed.op)
    return _traffic(placed, dim, _join_rounds(placed, dim))


def cut_bytes(placed: Placed) -> tuple[Traffic, ...]:
    """As `join_bytes`."""
    dim = cut_dim(placed.op)
    assert dim is not None, "priced where it does not apply"
    return _traffic(placed, dim, _cut_rounds(placed, dim))


def _traffic(placed: Placed, dim: int, rounds: Sequence[PermuteRound]) -> tuple[Traffic, ...]:
    elements, count = elements_sent(rounds)
    size = float(elements * placed.row_bytes(~0, dim))
    return (Traffic(placed.results[0].dims[dim].axes, size, count),)


def expand_join(op: LocalOp) -> Sequence[Value]:
    """The local parts joined; then each round overwrites what it brings."""
    placed = placed_of(op)
    dim = _joined_dim(placed.op)
    word = op.result_layouts[0].dims[dim]
    joined = op.ctx.joined(op.operands, dim)
    return [in_rounds(op.ctx, joined, joined, dim, word.axes, _join_rounds(placed, dim))]


def expand_cut(op: LocalOp) -> Sequence[Value]:
    """The first elements of the shard; then each round overwrites what it brings."""
    placed, value = placed_of(op), op.operands[0]
    dim = cut_dim(placed.op)
    assert dim is not None, "expanded where it does not apply"
    word = op.result_layouts[0].dims[dim]
    result = op.ctx.cut(value, dim, 0, op.local_result_shape()[dim])
    return [in_rounds(op.ctx, value, result, dim, word.axes, _cut_rounds(placed, dim))]


def expand_padded(op: LocalOp) -> Sequence[Value]:
    """The elements of the shard; then the rounds, and the padding wherever there is no element."""
    placed, ctx, (value, fill) = placed_of(op), op.ctx, op.operands
    dim = cut_dim(placed.op)
    assert dim is not None, "expanded where it does not apply"
    cut, word = cuts_of(placed.op)[dim], op.result_layouts[0].dims[dim]
    local, given = op.local_result_shape()[dim], ctx.shape_of(value)[dim]
    result = ctx.cut(value, dim, 0, min(local, given))
    result = ctx.lengthened(result, dim, 0, local)
    result = in_rounds(ctx, value, result, dim, word.axes, _cut_rounds(placed, dim))
    wide = index_element(max(cut.after, cut.low + cut.before))
    first = ctx.times(ctx.convert(ctx.axis_index(word.axes), wide), local)
    index = ctx.binary("add", ctx.iota((local,), 0, wide), first)
    inside = ctx.within(index, cut.low, cut.low + cut.before)
    return [ctx.select(inside, result, fill, [dim])]


def _joined_dim(op: OpInfo) -> int:
    return integer(op.attribute("dimension"))


def _join_rounds(placed: Placed, dim: int) -> tuple[PermuteRound, ...]:
    sizes = tuple([shape[dim] for shape in placed.op.operand_shapes])
    return rounds_of_join(sizes, placed.results[0].dims[dim].split)


def _cut_rounds(placed: Placed, dim: int) -> tuple[PermuteRound, ...]:
    cut = cuts_of(placed.op)[dim]
    return rounds_of_cut(cut.before, -cut.low, cut.after, placed.results[0].dims[dim].split)
