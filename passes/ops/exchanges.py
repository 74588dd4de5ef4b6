"""Blocks of shards exchanged among the shards of a dimension: block b of each goes to shard b."""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.dialect.dim import WHOLE, Dim
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import Value
from dtensor.passes.expansion.context import ExpansionContext


def exchanged(
    ctx: ExpansionContext, value: Value, layout: Layout, dim: int, shape: Sequence[int]
) -> Value:
    """A shard cut into as many blocks as there are shards, of which each shard gets one.

    Args:
        ctx: where to create operations.
        value: the shard.
        layout: how the tensor is laid out; contiguous along `dim`.
        dim: the dimension that is cut, whose shards divide by their number.
        shape: the global shape of the tensor.

    Returns:
        The blocks that came, in the order of the shards that had them: of the type of `value`.
    """
    word, local = layout.dims[dim], ctx.shape_of(value)
    shards = word.split
    block = local[dim] // shards
    whole = (*shape[:dim], shards, shards, block, *shape[dim + 1 :])

    def around(*middle: Dim) -> Layout:
        dims = (*layout.dims[:dim], *middle, WHOLE, *layout.dims[dim + 1 :])
        return Layout.of(dims, layout.mesh)

    blocks = ctx.reshape(value, (*local[:dim], 1, shards, block, *local[dim + 1 :]))
    return ctx.reshape(ctx.relayout(blocks, around(word, WHOLE), around(WHOLE, word), whole), local)


def dealt(ctx: ExpansionContext, value: Value, dim: int, hands: int) -> Value:
    """Elements along a dimension put in `hands` blocks: element i stands in block `i % hands`."""
    shape = ctx.shape_of(value)
    rank, local = len(shape), shape[dim]
    value = ctx.reshape(value, (*shape[:dim], local // hands, hands, *shape[dim + 1 :]))
    order = list(range(rank + 1))
    order[dim], order[dim + 1] = dim + 1, dim
    return ctx.reshape(ctx.transpose(value, order), shape)
