"""Slice, pad, concatenate and reverse: they cut a dimension and put it together again.

The first three work on blocks, and keep whole blocks together. If both the operand and the result
are a number of equal blocks, each block can be split over a mesh axis, `{3, "x"}`, and cutting or
joining blocks stays local. That is what a fused qkv matrix needs, which is cut in three. Slices and
pads of split dimensions are the same blocks, each smaller by the number of shards.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import replace

from dtensor.dialect.axes import AxisRef, devices_along
from dtensor.dialect.mlir import Value
from dtensor.dialect.names import FITS
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.expansion.indices import index_element
from dtensor.passes.ops import joins, longer_cuts
from dtensor.passes.ops.attributes import (
    SLICE_NUMBERS,
    integer,
    integers,
    pad_numbers,
    slice_numbers,
)
from dtensor.passes.ops.cut_dims import Cut, DimBlocks, cuts_of, fetch_sliding, sliding
from dtensor.passes.ops.exchanges import permuted
from dtensor.passes.ops.halo import halo, without_halo
from dtensor.passes.ops.indexing import clamped
from dtensor.passes.ops.loops import take
from dtensor.passes.ops.narrow import sent_as
from dtensor.passes.ops.opdef import Algorithm, OpDef, Placed, Traffic, placed_of, says
from dtensor.passes.ops.rule import FactorKind, OpInfo, OpRule, RuleBuilder, element_bytes
from dtensor.passes.ops.shape import pass_all
from dtensor.passes.ops.whole_shards import comes_along, moves_before


def slice_rule(op: OpInfo) -> OpRule:
    """`ij->ij`; a dimension that is cut is split block by block, if start and size allow.

    Or all of it alike, which shards exchange for what they lack, where it is the only one. One of
    which most is left is split with a halo. Of one of which few elements are taken `ij->ij` reduce
    `j`: a shard gives those it owns, and zero (false) for the others, so the result is a sum (an
    "or").
    """
    cuts = cuts_of(op)
    few = {d for d, cut in enumerate(cuts) if cut.takes_few}
    in_blocks = {d for d in few if cuts[d].has_blocks}
    rule = _or_exchanged(op, _slice_rule(op, few - in_blocks))
    return replace(rule, others=(*rule.others, _slice_rule(op, few))) if in_blocks else rule


def _slice_rule(op: OpInfo, owned: Container[int]) -> OpRule:
    """The rule in which shards give what they own of these dimensions, if they can be added."""
    builder = RuleBuilder(op)
    for d, cut in enumerate(cuts_of(op)):
        if not (d in owned and builder.owned(d)):
            why = f"has {cut.after} of {cut.before} elements cut out of it, not whole blocks"
            _share(builder, d, cut, why)
    pass_all(builder)
    return builder.build()


def _or_exchanged(op: OpInfo, rule: OpRule) -> OpRule:
    """A rule, with another one where shards may also exchange what they lack."""
    dim = joins.cut_dim(op)
    is_window = any(factor.kind is FactorKind.WINDOW for factor in rule.factors)
    if dim is None or is_window or any(factor.reduction for factor in rule.factors):
        return rule
    return replace(rule, others=joins.cut_exchange_rules(op, dim))


def pad_rule(op: OpInfo) -> OpRule:
    """`ij,->ij`; a dimension that is padded is split block by block, if the padding allows.

    Or all of it alike, which shards exchange for what they lack, where it is the only one. One to
    which little is added is split with a halo.
    Parts pass if the padding value is one too: the padding of the sum is the sum of the paddings.
    """
    builder = RuleBuilder(op)
    for d, cut in enumerate(cuts_of(op)):
        why = f"is padded from {cut.before} to {cut.after} elements, not by whole blocks"
        _share(builder, d, cut, why)
    pass_all(builder, 2)
    return _or_exchanged(op, builder.build())


def _share(builder: RuleBuilder, dim: int, cut: Cut, why_whole: str) -> None:
    """The factor of a dimension that is cut or padded: of windows, or of blocks."""
    blocks, window = cut.blocks, cut.window
    if window is not None:
        builder.share((~0, dim), (0, dim), kind=FactorKind.WINDOW, window=window)
    if blocks is None or (blocks.block == blocks.stride and cut.before != cut.after):
        builder.whole(0, dim, why_whole)
    elif window is None:
        factor, block = builder.factor(blocks.block), blocks.block
        before, after = (blocks.stride, 1) if cut.is_pad else (1, blocks.stride)
        builder.carry(0, dim, factor, outer=_count(cut.before * before, block))
        builder.carry(~0, dim, factor, outer=_count(cut.after * after, block))


def concatenate_rule(op: OpInfo) -> OpRule:
    """`ij,ij->ij`; the joined dimension is split block by block, if the sizes have a divisor.

    Or all of it alike, which shards exchange for what they lack.
    """
    joined = integer(op.attribute("dimension"))
    result = op.result_shapes[0]
    builder = RuleBuilder(op)
    for d, size in enumerate(result):
        sizes = [shape[d] for shape in op.operand_shapes]
        block = math.gcd(*sizes) if d == joined else size
        if d == joined and block <= 1 and size > 1:
            for k in range(len(sizes)):
                builder.whole(k, d, f"is joined from {sizes} elements, which have no common blocks")
            continue
        factor = builder.factor(block)
        for k, part in enumerate(sizes):
            if part or d != joined:
                builder.carry(k, d, factor, outer=_count(part, block))
        builder.carry(~0, d, factor, outer=_count(size, block))
    pass_all(builder, len(op.operand_shapes))
    return replace(builder.build(), others=joins.join_exchange_rules(op))


def reverse_rule(op: OpInfo) -> OpRule:
    """`ij->ij`; of a reversed dimension the first shard becomes the last."""
    reversed_dims = set(integers(op.attribute("dimensions")))
    builder = RuleBuilder(op)
    for d, size in enumerate(op.result_shapes[0]):
        kind = FactorKind.WINDOW if d in reversed_dims and size > 1 else None
        builder.share((0, d), (~0, d), kind=kind)
    pass_all(builder)
    return builder.build()


def _count(size: int, block: int) -> int:
    return size // block if block else 1


def expand_slice(op: LocalOp) -> Sequence[Value] | None:
    """`[start:limit:stride]` in elements of the shard, which fetches some, or owns few: else -0."""
    layout = op.operand_layouts[0]
    if not layout.axes:
        return None
    placed = placed_of(op)
    owned, slid = _owned(placed), fetch_sliding(op)
    starts, limits, strides = slice_numbers(op.operation)
    for d, (cut, dim) in enumerate(zip(cuts_of(placed.op), layout.dims, strict=True)):
        if d in slid:
            starts[d], limits[d] = 0, op.local_result_shape()[d]
        elif d in owned:
            op.operation.operands[0] = _owned_elements(op, d, cut)
            starts[d], limits[d], strides[d] = 0, cut.after, 1
        elif dim.split > 1:
            starts[d] = _blocks(cut).start(dim.split)
            last = (cut.after // dim.split - 1) * strides[d]
            limits[d] = starts[d] + last + 1 if cut.after else starts[d]
    for name, numbers in zip(SLICE_NUMBERS, (starts, limits, strides), strict=True):
        op.set_integers(name, numbers)
    return list(op.again().results) if owned else None


def _blocks(cut: Cut) -> DimBlocks:
    found = cut.blocks
    assert found is not None, "a slice or pad whose blocks do not align was split"
    return found


def _owned_elements(op: LocalOp, dim: int, cut: Cut) -> Value:
    """The elements that a slice takes along a dimension: those of the shard, and -0."""
    ctx, layout = op.ctx, op.operand_layouts[0]
    index = ctx.times(ctx.iota((cut.after,), 0, index_element(cut.before)), cut.step)
    index = ctx.binary("add", index, -cut.low)
    local_index, mine = ctx.localise_index(index, layout, dim, cut.before)
    local_index = clamped(ctx, local_index, cut.before // layout.dims[dim].split)
    value = take(ctx, op.operands[0], local_index, dim)
    return ctx.select(mine, value, ctx.identity("sum", value.type), [dim])


def expand_pad(op: LocalOp) -> None:
    """`low`, `high` in elements of the shard, and of what it fetched of its neighbours."""
    layout = op.operand_layouts[0]
    if not layout.axes:
        return
    lows, highs, gaps = pad_numbers(op.operation)
    cuts, slid = cuts_of(placed_of(op).op), fetch_sliding(op)
    for d, (cut, dim) in enumerate(zip(cuts, layout.dims, strict=True)):
        if d in slid:
            lows[d] = highs[d] = 0
        elif dim.split > 1:
            local = cut.before // dim.split
            spread = local + max(local - 1, 0) * gaps[d]
            lows[d] = _blocks(cut).start(dim.split)
            highs[d] = cut.after // dim.split - lows[d] - spread
    op.set_integers("edge_padding_low", lows)
    op.set_integers("edge_padding_high", highs)


def _owned(placed: Placed) -> list[int]:
    """The split dimensions of which a slice takes few elements, and gives parts of a sum."""
    sides = zip(placed.operands[0].dims, placed.results[0].dims, strict=True)
    split = [d for d, (dim, result) in enumerate(sides) if dim.split > 1 and result.split == 1]
    return [d for d in split if cuts_of(placed.op)[d].takes_few]


_has_no_halo = without_halo(sliding)


def _exchanges(placed: Placed) -> bool:
    """Whether shards fetch what they lack from anywhere, and not in halos or from owners."""
    return not _owned(placed) and _has_no_halo(placed) and joins.cuts_in_rounds(placed)


def _cuts_locally(placed: Placed) -> bool:
    return _has_no_halo(placed) and not _exchanges(placed)


def _is_owned(placed: Placed) -> bool:
    """Whether some are, and none with a halo."""
    return bool(_owned(placed)) and _has_no_halo(placed)


def _reversed(placed: Placed) -> list[int]:
    """The split dimensions that are reversed."""
    dims = integers(placed.op.attribute("dimensions"))
    sizes = placed.op.operand_shapes[0]
    return [d for d in dims if placed.operands[0].dims[d].split > 1 and sizes[d] > 1]


def _mirrors(placed: Placed) -> bool:
    dims = placed.operands[0].dims
    return bool(_reversed(placed)) and all(dims[d].is_contiguous for d in _reversed(placed))


def mirror_bytes(placed: Placed) -> tuple[Traffic, ...]:
    """Every shard, unless it was sent on its way before."""
    if comes_along(placed):
        return ()
    size = math.prod(placed.shard(0)) * element_bytes(placed.op.operand_elements[0])
    return (Traffic(_reversed_axes(placed), size, 1),)


def _reversed_axes(placed: Placed) -> tuple[AxisRef, ...]:
    dims = placed.operands[0].dims
    return tuple([axis for d in _reversed(placed) for axis in dims[d].axes])


def expand_mirrored(op: LocalOp) -> None:
    """Shards change places, the first along all dimensions with the last; each is reversed."""
    axes = _reversed_axes(placed_of(op))
    sources = list(reversed(range(devices_along(axes))))
    op.operation.operands[0] = permuted(op.ctx, op.operands[0], axes, sources)


SLICE = OpDef(
    slice_rule,
    (
        Algorithm("by_owner", expand_slice, _is_owned),
        halo(expand_slice, sliding),
        Algorithm("exchange", joins.expand_cut, _exchanges, joins.cut_bytes),
        Algorithm("local", expand_slice, _cuts_locally),
    ),
    fuses=True,
    moves_only=True,
    padding=longer_cuts.OF_SLICE,
    known=sent_as,
)
PAD = OpDef(
    pad_rule,
    (
        halo(expand_pad, sliding),
        Algorithm("exchange", joins.expand_padded, _exchanges, joins.cut_bytes),
        Algorithm("local", expand_pad, _cuts_locally),
    ),
    fuses=True,
    moves_only=True,
    padding=longer_cuts.OF_PAD,
    known=lambda op: (says(FITS)(op), sent_as(op)),
)
CONCATENATE = OpDef(
    concatenate_rule,
    (
        Algorithm("exchange", joins.expand_join, joins.joins_in_rounds, joins.join_bytes),
        Algorithm("local", applies=lambda placed: not joins.joins_in_rounds(placed)),
    ),
    fuses=True,
    moves_only=True,
    padding=longer_cuts.OF_CONCATENATE,
)
REVERSE = OpDef(
    reverse_rule,
    (
        Algorithm("mirror", expand_mirrored, _mirrors, mirror_bytes),
        Algorithm("local", applies=lambda placed: not _reversed(placed)),
    ),
    fuses=True,
    moves_only=True,
    padding=longer_cuts.OF_REVERSE,
    known=moves_before,
)
