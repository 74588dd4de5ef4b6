"""Scatter: gradients of embedding lookups, and all other writing by computed index.

A dimension that is indexed element by element can be split: each shard takes the updates of the
elements that it owns, and no table moves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import ir
from dtensor.passes.expansion.context import ExpansionContext, LocalOp
from dtensor.passes.ops import padding
from dtensor.passes.ops.accuracy import all_of, summed
from dtensor.passes.ops.indexing import (
    IndexedDims,
    clamped,
    index_columns,
    index_vectors,
    say_whole,
    scatter_dims,
)
from dtensor.passes.ops.opdef import OpDef, local
from dtensor.passes.ops.reduction import Reduction, reductions_of
from dtensor.passes.ops.reductions import combiner
from dtensor.passes.ops.rule import OpInfo, OpRule, RuleBuilder

_OVERWRITTEN = "has updates that overwrite; which one is the last, only all of them tell"

_UNKNOWN_BODY = "has updates that are joined by a body that is not one known combiner"


def scatter_rule(op: OpInfo) -> OpRule:
    """`vi,j,ji->vi` reduce `j`: the gradient of a lookup.

    If `v` is split, each shard takes the updates of the elements it owns and drops the others. If
    `j` is split, each shard takes its own updates, one of them the old elements too, and the
    shards are combined as the body does it. A body that overwrites needs all updates in one place:
    of two updates to one element, the shards could not tell which is the last.
    """
    count = len(op.result_shapes)
    operand, indices, updates = (op.operand_shapes[k] for k in (0, count, count + 1))
    dims = scatter_dims(op.operation, operand, len(indices), updates)
    inputs, slices = range(count), range(count + 1, 2 * count + 1)
    reduction = combiner(op.operation.regions[0], op.result_elements)
    is_overwriting = overwrites(op.operation.regions[0], count)
    builder = RuleBuilder(op)
    for d, i, u in dims.batching:
        factor = _shared(builder, inputs, d)
        builder.operand(count, i, factor)
        for k in slices:
            builder.operand(k, u, factor)
    for i, u in dims.spread:
        if reduction is None:
            builder.whole(count, i, _OVERWRITTEN if is_overwriting else _UNKNOWN_BODY)
            continue
        factor = builder.factor(indices[i], reduction, inputs)
        builder.operand(count, i, factor)
        for k in slices:
            builder.operand(k, u, factor)
    for d, u in dims.full:
        factor = _shared(builder, inputs, d)
        for k in slices:
            builder.operand(k, u, factor)
    for d, _ in dims.picked:
        _shared(builder, inputs, d)
    say_whole(builder, dims, count, len(indices))
    _scatter_passes(builder, reduction, dims)
    return builder.build()


def scatter_flops(op: OpInfo) -> float:
    """One per update that is combined with an element, none where it replaces it."""
    count = len(op.result_shapes)
    if overwrites(op.operation.regions[0], count):
        return 0.0
    return float(math.prod(op.operand_shapes[count + 1])) * count


def _shared(builder: RuleBuilder, inputs: range, dim: int) -> int:
    """A factor that dimension `dim` of every input and of every result carries."""
    factor = builder.factor(builder.op.operand_shapes[0][dim])
    for k in inputs:
        builder.operand(k, dim, factor)
        builder.result(k, dim, factor)
    return factor


def _scatter_passes(builder: RuleBuilder, reduction: Reduction | None, dims: IndexedDims) -> None:
    """Parts of the combiner's reduction pass; an overwriting body only moves elements.

    That needs every shard to choose the same one of several updates to one element, which the
    specification leaves open: there must not be several.
    """
    op = builder.op
    count = len(op.result_shapes)
    inputs, updates = op.operand_elements[:count], op.operand_elements[count + 1 :]
    if inputs != op.result_elements or updates != op.result_elements:
        return  # the body computes in a wider type, where parts that wrapped around do not add up
    parts = [True] * count + [False] + [True] * count
    if reduction is not None:
        builder.passes_each([reduction], parts)
    elif overwrites(op.operation.regions[0], count) and _each_once(op, dims):
        kinds = [k for k in reductions_of(inputs[0]) if all(k in reductions_of(e) for e in inputs)]
        builder.passes_each(kinds, parts)


def overwrites(region: ir.Region, count: int) -> bool:
    """Whether a scatter body of `count` values returns its updates as they are."""
    block = region.blocks[0]
    operations = list(block.operations)
    returned = list(operations[0].operation.operands)
    return len(operations) == 1 and returned == list(block.arguments)[count:]


def _each_once(op: OpInfo, dims: IndexedDims) -> bool:
    """Whether no element is updated twice."""
    if op.has("unique_indices") and ir.BoolAttr(op.attribute("unique_indices")).value:
        return True
    indices = op.operand_shapes[len(op.result_shapes)]
    return math.prod(indices[i] for i, _ in dims.spread) <= 1


def expand_scatter(op: LocalOp) -> Sequence[ir.Value[Any]] | None:
    """If an indexed dimension is split, indices of elements that others own point out of range.

    A single index stays in range, and what it would change elsewhere is put back: XLA turns such a
    scatter into slices, and joins those with the slice that cut the operand without clamping.
    """
    count = len(op.result_layouts)
    layout, indices = op.operand_layouts[0], op.operands[count]
    dims = scatter_dims(
        op.operation,
        op.operand_shapes[0],
        len(op.operand_shapes[count]),
        op.operand_shapes[count + 1],
    )
    owned = [(d, c) for d, c in dims.picked if layout.dims[d].split > 1]
    if not owned:
        return None
    ctx = op.ctx
    columns = index_columns(ctx, indices, dims.vector_dim)
    if math.prod(ctx.shape_of(columns[0])) == 1:
        return _scatter_at_one_index(op, dims, owned, columns)
    for d, component in owned:
        columns[component] = _own_or_outside(
            ctx, columns[component], layout, d, op.operand_shapes[0][d]
        )
    wide = "i64" if any(ctx.element_of(columns[c]) == "i64" for _, c in owned) else "i32"
    columns = [ctx.convert(column, wide) for column in columns]
    rank = len(op.operand_shapes[count])
    op.operation.operands[count] = index_vectors(ctx, columns, dims.vector_dim, rank)
    if not all(layout.dims[d].is_contiguous for d, _ in owned):
        op.operation.attributes["indices_are_sorted"] = ir.BoolAttr.get(False)
        op.operation.attributes["unique_indices"] = ir.BoolAttr.get(False)
    return None


def _scatter_at_one_index(
    op: LocalOp,
    dims: IndexedDims,
    owned: Sequence[tuple[int, int]],
    columns: list[ir.Value[Any]],
) -> Sequence[ir.Value[Any]]:
    """Scatter in range on every shard; keep the result only where the element is."""
    ctx, layout, count = op.ctx, op.operand_layouts[0], len(op.result_layouts)
    element = ctx.element_of(columns[0])
    mine: ir.Value[Any] | None = None
    for d, component in owned:
        size = op.operand_shapes[0][d]
        local, is_here = ctx.localise_index(columns[component], layout, d, size)
        last = size // layout.dims[d].split
        columns[component] = ctx.convert(clamped(ctx, local, last), element)
        mine = is_here if mine is None else ctx.binary("and", mine, is_here)
    assert mine is not None
    mine = ctx.reshape(mine, ())
    vectors = index_vectors(ctx, columns, dims.vector_dim, len(op.operand_shapes[count]))
    copy = ctx.clone(op.operation)
    copy.operands[count] = vectors
    for k, result in enumerate(copy.results):
        result.set_type(op.operands[k].type)
    return [ctx.select(mine, result, op.operands[k]) for k, result in enumerate(copy.results)]


def _own_or_outside(
    ctx: ExpansionContext, index: ir.Value[Any], layout: Layout, dim: int, size: int
) -> ir.Value[Any]:
    """The local index, or one that is out of range if the element is not here.

    Of a contiguous shard the distance from its first element is that already; it keeps different
    indices different, and their order.
    """
    local, mine = ctx.localise_index(index, layout, dim, size)
    if layout.dims[dim].is_contiguous:
        return local
    return ctx.select(mine, local, ctx.constant_like(-1, local))


def lengthen_scatter(op: padding.Grown) -> None:
    """Indices beyond the true end write what nobody reads; those of no update may be any."""
    count = len(op.results)
    if op.operands[count] != op.operands_before(count):
        op.deny("indices_are_sorted", "unique_indices")


SCATTER = OpDef(
    scatter_rule,
    (local(expand_scatter),),
    flops=scatter_flops,
    accuracy=summed(all_of(-2), rounds_each=True),  # the updates, or more: their indices
    in_place=True,
    padding=padding.Padding(padding.reducing, lengthen_scatter),
)
