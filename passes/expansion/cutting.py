"""Slices and pads of split dimensions: the same blocks, each smaller by the number of shards."""

from __future__ import annotations

from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.rules.cutting import pad_blocks, slice_blocks
from dtensor.passes.rules.reading import integers


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
