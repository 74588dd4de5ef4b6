"""Slice, pad, concatenate and reverse: they cut a dimension and put it together again.

The first three work on blocks, and keep whole blocks together. If both the operand and the result
are a number of equal blocks, each block can be split over a mesh axis, `{3, "x"}`, and cutting or
joining blocks stays local. That is what a fused qkv matrix needs, which is cut in three. Slices and
pads of split dimensions are the same blocks, each smaller by the number of shards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.ops.attributes import integer, integers
from dtensor.passes.ops.opdef import OpDef, local
from dtensor.passes.ops.rule import OpInfo, OpRule, RuleBuilder
from dtensor.passes.ops.shape import pass_all


@dataclass(frozen=True, slots=True)
class Blocks:
    """How one dimension of a slice (or of a pad, the other way round) falls into blocks.

    Attributes:
        block: elements of one block of the longer side, a multiple of the stride.
        stride: elements of the longer side per element of the shorter one.
        first: where the first block of the shorter side begins, in elements of the longer side.
        phase: which of each `stride` elements belongs to the shorter side.
    """

    block: int
    stride: int
    first: int
    phase: int


def slice_blocks(size: int, start: int, kept: int, stride: int) -> Blocks | None:
    """The blocks of a dimension of `size` elements of which `kept` are taken; None if none fit.

    Taken are `start`, `start + stride`, ...
    """
    if size == kept:
        return Blocks(size, 1, 0, 0)
    if kept == 0 or size % stride:
        return None
    phase = start % stride
    block = math.gcd(start - phase, kept * stride, size)
    return Blocks(block, stride, start - phase, phase)


def pad_blocks(size: int, low: int, padded: int, interior: int) -> Blocks | None:
    """The blocks of a padded dimension: the slice that undoes the pad, if there is one.

    A negative `low` or `high` crops, as a slice does; then the padded side may be the shorter one,
    and the blocks are those that both sides fall into.
    """
    stride = interior + 1
    if size == padded and low == 0 and (interior == 0 or size <= 1):
        return Blocks(size, 1, 0, 0)
    if size == 0 or padded == 0 or padded % stride:
        return None
    phase = low % stride
    block = math.gcd(low - phase, size * stride, padded)
    return Blocks(block, stride, low - phase, phase)


def slice_rule(op: OpInfo) -> OpRule:
    """`ij->ij`; a dimension that is cut is split block by block, if start and size allow."""
    starts, strides = integers(op.attribute("start_indices")), integers(op.attribute("strides"))
    builder = RuleBuilder(op)
    for d, size in enumerate(op.operand_shapes[0]):
        kept = op.result_shapes[0][d]
        blocks = slice_blocks(size, starts[d], kept, strides[d])
        if blocks is None or (blocks.block == blocks.stride and size != kept):
            builder.whole(0, d, f"has {kept} of {size} elements cut out of it, not whole blocks")
            continue
        factor = builder.factor(blocks.block)
        builder.operand(0, d, factor, outer=_count(size, blocks.block))
        builder.result(0, d, factor, outer=_count(kept * blocks.stride, blocks.block))
    pass_all(builder)
    return builder.build()


def pad_rule(op: OpInfo) -> OpRule:
    """`ij,->ij`; a dimension that is padded is split block by block, if the padding allows.

    Parts pass if the padding value is one too: the padding of the sum is the sum of the paddings.
    """
    lows = integers(op.attribute("edge_padding_low"))
    interiors = integers(op.attribute("interior_padding"))
    builder = RuleBuilder(op)
    for d, size in enumerate(op.operand_shapes[0]):
        padded = op.result_shapes[0][d]
        blocks = pad_blocks(size, lows[d], padded, interiors[d])
        if blocks is None or (blocks.block == blocks.stride and size != padded):
            builder.whole(0, d, f"is padded from {size} to {padded} elements, not by whole blocks")
            continue
        factor = builder.factor(blocks.block)
        builder.operand(0, d, factor, outer=_count(size * blocks.stride, blocks.block))
        builder.result(0, d, factor, outer=_count(padded, blocks.block))
    pass_all(builder, 2)
    return builder.build()


def concatenate_rule(op: OpInfo) -> OpRule:
    """`ij,ij->ij`; the joined dimension is split block by block, if the sizes have a divisor."""
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
                builder.operand(k, d, factor, outer=_count(part, block))
        builder.result(0, d, factor, outer=_count(size, block))
    pass_all(builder, len(op.operand_shapes))
    return builder.build()


def reverse_rule(op: OpInfo) -> OpRule:
    """`ij->ij`; a reversed dimension is whole, for its first shard becomes the last."""
    reversed_dims = set(integers(op.attribute("dimensions")))
    builder = RuleBuilder(op)
    for d, size in enumerate(op.result_shapes[0]):
        if d in reversed_dims and size > 1:
            builder.whole(0, d, "is reversed, which would move every shard")
            continue
        factor = builder.factor(size)
        builder.operand(0, d, factor)
        builder.result(0, d, factor)
    pass_all(builder)
    return builder.build()


def _count(size: int, block: int) -> int:
    return size // block if block else 1


def expand_slice(op: LocalOp) -> None:
    """`[start:limit:stride]` in elements of the shard."""
    if not op.operand_layouts[0].axes:
        return
    attributes = op.operation.attributes
    starts = integers(attributes["start_indices"])
    limits = integers(attributes["limit_indices"])
    strides = integers(attributes["strides"])
    for d, dim in enumerate(op.operand_layouts[0].dims):
        if dim.split == 1:
            continue
        size, kept = op.operand_shapes[0][d], op.result_shapes[0][d]
        blocks = slice_blocks(size, starts[d], kept, strides[d])
        assert blocks is not None, "a slice whose blocks do not align was split"
        last = (kept // dim.split - 1) * strides[d]
        starts[d] = blocks.first // dim.split + blocks.phase
        limits[d] = starts[d] + last + 1 if kept else starts[d]
    op.set_integers("start_indices", starts)
    op.set_integers("limit_indices", limits)


def expand_pad(op: LocalOp) -> None:
    """`low`, `high` in elements of the shard."""
    if not op.operand_layouts[0].axes:
        return
    attributes = op.operation.attributes
    lows = integers(attributes["edge_padding_low"])
    highs = integers(attributes["edge_padding_high"])
    interiors = integers(attributes["interior_padding"])
    for d, dim in enumerate(op.operand_layouts[0].dims):
        if dim.split == 1:
            continue
        size, padded = op.operand_shapes[0][d], op.result_shapes[0][d]
        blocks = pad_blocks(size, lows[d], padded, interiors[d])
        assert blocks is not None, "a pad whose blocks do not align was split"
        local = size // dim.split
        spread = local + max(local - 1, 0) * interiors[d]
        lows[d] = blocks.first // dim.split + blocks.phase
        highs[d] = padded // dim.split - lows[d] - spread
    op.set_integers("edge_padding_low", lows)
    op.set_integers("edge_padding_high", highs)


SLICE = OpDef(slice_rule, (local(expand_slice),), fuses=True, moves_only=True)
PAD = OpDef(pad_rule, (local(expand_pad),), fuses=True, moves_only=True)
CONCATENATE = OpDef(concatenate_rule, fuses=True, moves_only=True)
REVERSE = OpDef(reverse_rule, fuses=True, moves_only=True)
