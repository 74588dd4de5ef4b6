"""Gather and scatter on a shard: global indices become local ones, foreign ones do nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import ir
from dtensor.passes.expansion.context import ExpansionContext, LocalOp
from dtensor.passes.rules.elements import element_kind
from dtensor.passes.rules.indexing import IndexedDims, gather_dims, scatter_dims
from dtensor.passes.rules.reading import integers


def expand_gather(op: LocalOp) -> Sequence[ir.Value[Any]] | None:
    """Local slice sizes; and if an indexed dimension is split, zeros for what others own."""
    operand_shape, layout = op.operand_shapes[0], op.operand_layouts[0]
    dims = gather_dims(op.operation, operand_shape, len(op.operand_shapes[1]))
    sizes = integers(op.operation.attributes["slice_sizes"])
    for d, _ in dims.full:
        sizes[d] //= layout.dims[d].split
    op.set_integers("slice_sizes", sizes)
    owned = [(d, c) for d, c in dims.picked if layout.dims[d].split > 1]
    return _gather_owned(op, dims, owned) if owned else None


def _gather_owned(
    op: LocalOp, dims: IndexedDims, owned: Sequence[tuple[int, int]]
) -> Sequence[ir.Value[Any]]:
    ctx, layout = op.ctx, op.operand_layouts[0]
    indices = op.operands[1]
    element = ctx.element_of(indices)
    columns = _columns(ctx, indices, dims.vector_dim)
    mine: ir.Value[Any] | None = None
    for d, component in owned:
        size = op.operand_shapes[0][d]
        index = clamped(ctx, columns[component], size)
        local, is_here = ctx.localise_index(index, layout, d, size)
        columns[component] = ctx.convert(local, element)
        mine = is_here if mine is None else ctx.binary("and", mine, is_here)
    assert mine is not None
    result = ctx.tensor_type(op.local_result_shape(), op.result_element())
    vectors = _joined(ctx, columns, dims.vector_dim, len(op.operand_shapes[1]))
    local_gather = ctx.clone(op.operation)
    local_gather.operands[1] = vectors
    local_gather.attributes["indices_are_sorted"] = ir.BoolAttr.get(False)
    local_gather.results[0].set_type(result)
    index_places = sorted([*(r for _, _, r in dims.batching), *(r for _, r in dims.spread)])
    mask = ctx.broadcast(mine, op.local_result_shape(), index_places)
    return [ctx.select(mask, local_gather.results[0], _zeros(op, result))]


def _zeros(op: LocalOp, type_: ir.Type) -> ir.Value[Any]:
    """The identity of "sum" and "or"."""
    ctx, element = op.ctx, op.result_element()
    if element_kind(element)[0] != "complex":
        return ctx.constant(0, type_)
    part = ctx.constant(0, ctx.tensor_type(op.local_result_shape(), element[8:-1]))
    return ctx.value("stablehlo.complex", [part, part], type_)


def clamped(ctx: ExpansionContext, index: ir.Value[Any], size: int) -> ir.Value[Any]:
    """The index of the element that a gather takes: the nearest one, if out of range."""
    kind, bits = element_kind(ctx.element_of(index))
    highest = 2 ** (bits - (kind == "signed")) - 1
    scalar = ctx.tensor_type((), ctx.element_of(index))
    low, high = ctx.constant(0, scalar), ctx.constant(min(size - 1, highest), scalar)
    return ctx.value("stablehlo.clamp", [low, index, high], index.type)


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
    columns = _columns(ctx, indices, dims.vector_dim)
    if math.prod(ctx.shape_of(columns[0])) == 1:
        return _scatter_at_one_index(op, dims, owned, columns)
    for d, component in owned:
        columns[component] = _own_or_outside(
            ctx, columns[component], layout, d, op.operand_shapes[0][d]
        )
    wide = "i64" if any(ctx.element_of(columns[c]) == "i64" for _, c in owned) else "i32"
    columns = [ctx.convert(column, wide) for column in columns]
    rank = len(op.operand_shapes[count])
    op.operation.operands[count] = _joined(ctx, columns, dims.vector_dim, rank)
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
    vectors = _joined(ctx, columns, dims.vector_dim, len(op.operand_shapes[count]))
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


def _columns(ctx: ExpansionContext, indices: ir.Value[Any], vector_dim: int) -> list[ir.Value[Any]]:
    """The components of the index vectors, each a tensor without `vector_dim`."""
    shape, element = ctx.read_type(indices.type)
    if vector_dim == len(shape):
        return [indices]
    rest = [n for d, n in enumerate(shape) if d != vector_dim]
    if shape[vector_dim] == 1:
        return [ctx.reshape(indices, rest)]
    columns = []
    for component in range(shape[vector_dim]):
        start, limit = [0] * len(shape), list(shape)
        start[vector_dim], limit[vector_dim] = component, component + 1
        attributes = {
            "start_indices": ir.DenseI64ArrayAttr.get(start),
            "limit_indices": ir.DenseI64ArrayAttr.get(limit),
            "strides": ir.DenseI64ArrayAttr.get([1] * len(shape)),
        }
        local = [limit[d] - start[d] for d in range(len(shape))]
        column = ctx.value(
            "stablehlo.slice", [indices], ctx.tensor_type(local, element), attributes
        )
        columns.append(ctx.reshape(column, rest))
    return columns


def _joined(
    ctx: ExpansionContext, columns: Sequence[ir.Value[Any]], vector_dim: int, rank: int
) -> ir.Value[Any]:
    """Index vectors from their components, of one type; undoes `_columns`."""
    shape, element = ctx.read_type(columns[0].type)
    if vector_dim == rank:
        return columns[0]
    single = [*shape[:vector_dim], 1, *shape[vector_dim:]]
    parts = [ctx.reshape(column, single) for column in columns]
    if len(parts) == 1:
        return parts[0]
    joined = ctx.tensor_type([*shape[:vector_dim], len(parts), *shape[vector_dim:]], element)
    i64 = ir.IntegerType.get_signless(64)
    attributes = {"dimension": ir.IntegerAttr.get(i64, vector_dim)}
    return ctx.value("stablehlo.concatenate", parts, joined, attributes)
