"""Scatter: gradients of embedding lookups, and all other writing by computed index.

A dimension that is indexed element by element can be split: each shard takes the updates of the
elements that it owns, and no table moves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import Value, ir
from dtensor.passes.expansion.context import ExpansionContext, LocalOp
from dtensor.passes.expansion.indices import signed_index
from dtensor.passes.ops import padding
from dtensor.passes.ops.accuracy import all_of, summed
from dtensor.passes.ops.combiners import combiner
from dtensor.passes.ops.indexing import (
    ANY_INDEX,
    IndexedDims,
    Spread,
    clamped,
    index_columns,
    indexed_dims,
    say_whole,
    spread_windows,
)
from dtensor.passes.ops.opdef import OpDef, local
from dtensor.passes.ops.reduction import Reduction, reductions_of
from dtensor.passes.ops.rule import OpInfo, OpRule, RuleBuilder

_OVERWRITTEN = "has updates that overwrite; which one is the last, only all of them tell"

_UNKNOWN_BODY = "has updates that are joined by a body that is not one known combiner"


def scatter_rule(op: OpInfo) -> OpRule:
    """`vi,j,ji->vi` reduce `j`: the gradient of a lookup.

    If `v` is split, each shard takes the updates of the elements it owns and drops the others; of a
    window across two shards each takes its elements. If `j` is split, each shard takes its own
    updates, one of them the old elements too, and the shards are combined as the body does it. A
    body that overwrites needs all updates in one place: of two updates to one element, the shards
    could not tell which is the last.
    """
    count = len(op.result_shapes)
    dims = indexed_dims(op.operation, op.operand_shapes)
    inputs, slices = range(count), range(count + 1, 2 * count + 1)
    reduction = combiner(op.operation.regions[0])
    is_overwriting = overwrites(op.operation.regions[0], count)
    builder = RuleBuilder(op)

    def kept(dim: int) -> list[tuple[int, int]]:
        """A dimension of every input and of every result."""
        return [(slot, dim) for k in inputs for slot in (k, ~k)]

    for d, i, u in dims.batching:
        builder.share(*kept(d), (count, i), *((k, u) for k in slices))
    for i, u in dims.spread:
        if reduction is None:
            builder.whole(count, i, _OVERWRITTEN if is_overwriting else _UNKNOWN_BODY)
        else:
            read = (count, i), *((k, u) for k in slices)
            builder.share(*read, reduction=reduction, partial_operands=inputs)
    for d, u in dims.full:
        builder.share(*kept(d), *((k, u) for k in slices))
    for d in (*(d for d, _ in dims.picked), *(d for d, _, _ in dims.cut)):
        builder.share(*kept(d), counts=True)
    say_whole(builder, dims, count, len(op.operand_shapes[count]), slices)
    _scatter_passes(builder, reduction, dims)
    return builder.build()


def scatter_flops(op: OpInfo) -> float:
    """One per update that is combined with an element, none where it replaces it."""
    count = len(op.result_shapes)
    if overwrites(op.operation.regions[0], count):
        return 0.0
    return float(math.prod(op.operand_shapes[count + 1])) * count


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


def expand_scatter(op: LocalOp) -> Sequence[Value] | None:
    """If an indexed dimension is split, indices of elements that others own point out of range.

    A single index stays in range, and what it would change elsewhere is put back: XLA turns such a
    scatter into slices, and joins those with the slice that cut the operand without clamping.
    """
    count = len(op.result_layouts)
    layout, indices = op.operand_layouts[0], op.operands[count]
    shape, updates = op.operand_shapes[0], op.operand_shapes[count + 1]
    dims = indexed_dims(op.operation, op.operand_shapes)
    picked = [(d, c) for d, c in dims.picked if layout.dims[d].split > 1]
    cut = [entry for entry in dims.cut if layout.dims[entry[0]].split > 1]
    if not picked and not cut:
        return None
    ctx = op.ctx
    columns = index_columns(ctx, indices, dims.vector_dim)
    windows = [(component, u, updates[u]) for _, component, u in cut]
    for d, component, u in cut:
        columns[component] = _inside_or_before(ctx, columns[component], shape[d], updates[u])
    spread = spread_windows(ctx, columns, dims, windows, len(op.operand_shapes[count]))
    if math.prod(ctx.shape_of(spread.columns[0])) == 1:
        return _scatter_at_one_index(op, picked, spread)
    for d, component in (*picked, *((d, component) for d, component, _ in cut)):
        spread.columns[component] = _own_or_outside(
            ctx, spread.columns[component], layout, d, shape[d]
        )
    op.operation.operands[count] = spread.vectors(ctx)
    spread.write(op.operation, [d for d, _, _ in cut])
    if cut or not all(layout.dims[d].is_contiguous for d, _ in picked):
        op.operation.attributes["indices_are_sorted"] = ir.BoolAttr.get(False)
        op.operation.attributes["unique_indices"] = ir.BoolAttr.get(False)
    return None


def _inside_or_before(ctx: ExpansionContext, start: Value, size: int, window: int) -> Value:
    """Where windows begin; one that does not lie wholly inside lies before all elements."""
    start = ctx.convert(start, signed_index(ctx.element_of(start)))
    is_inside = ctx.within(start, 0, size - window + 1)
    return ctx.select(is_inside, start, -window)


def _scatter_at_one_index(
    op: LocalOp, owned: Sequence[tuple[int, int]], spread: Spread
) -> Sequence[Value]:
    """Scatter in range on every shard; keep the result only where the element is."""
    ctx, layout, count = op.ctx, op.operand_layouts[0], len(op.result_layouts)
    mine: list[Value] = []
    for d, component in owned:
        size, index = op.operand_shapes[0][d], spread.columns[component]
        local, is_here = ctx.localise_index(index, layout, d, size)
        last = size // layout.dims[d].split
        spread.columns[component] = ctx.convert(clamped(ctx, local, last), ctx.element_of(index))
        mine.append(is_here)
    here = ctx.reshape(ctx.combined("and", mine), ())
    types = [value.type for value in op.operands[:count]]
    copy = op.again([*op.operands[:count], spread.vectors(ctx)], types)
    spread.write(copy, [])
    return [ctx.select(here, result, op.operands[k]) for k, result in enumerate(copy.results)]


def _own_or_outside(
    ctx: ExpansionContext, index: Value, layout: Layout, dim: int, size: int
) -> Value:
    """The local index, or one that is out of range if the element is not here.

    Of a contiguous shard the distance from its first element is that already; it keeps different
    indices different, and their order.
    """
    local, mine = ctx.localise_index(index, layout, dim, size)
    if layout.dims[dim].is_contiguous:
        return local
    return ctx.select(mine, local, -1)


def scatter_ties(op: OpInfo) -> list[padding.TiedDims]:
    """Updates that overwrite, or the like, may be more: what is beyond their end goes nowhere."""
    count = len(op.result_shapes)
    if combiner(op.operation.regions[0]) is not None:
        return []
    slots = range(count + 1, 2 * count + 1)
    spread = indexed_dims(op.operation, op.operand_shapes).spread
    return [
        (padding.Along(count, i), *(padding.Along(slot, u) for slot in slots)) for i, u in spread
    ]


def lengthen_scatter(op: padding.Grown) -> None:
    """Indices beyond the true end write what nobody reads; those of no update may be any.

    A window across the true end writes nothing: it is moved before all elements. So is each update
    beyond the true end, where the body has no identity that it could be.
    """
    count = len(op.results)
    operand, indices, updates = (op.info.operand_shapes[k] for k in (0, count, count + 1))
    dims = indexed_dims(op.operation, op.info.operand_shapes)
    is_vector = dims.vector_dim < len(indices)
    components = range(indices[dims.vector_dim] if is_vector else 1)
    ends = {c: operand[d] - updates[u] for d, c, u in dims.cut if op.grows(0, d)}
    if ends:
        last = [ends.get(component, ANY_INDEX) for component in components]
        op.drop_beyond(count, last, dims.vector_dim if is_vector else None)
    before = -max([1, *(updates[u] for _, _, u in dims.cut)])
    for tie in scatter_ties(op.info):
        if op.grows(count, tie[0].dim):
            op.set_beyond(count, tie[0].dim, before)
    if op.operands[count] != op.true_operand(count):
        op.deny("indices_are_sorted", "unique_indices")


SCATTER = OpDef(
    scatter_rule,
    (local(expand_scatter),),
    flops=scatter_flops,
    accuracy=summed(all_of(-2), rounds_each=True),  # the updates, or more: their indices
    in_place=True,
    padding=padding.Padding(padding.reducing, lengthen_scatter, scatter_ties),
)
