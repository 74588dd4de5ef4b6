"""Gather: embedding lookups, and all other reading by computed index.

A dimension that is indexed element by element (the vocabulary of an embedding) can be split: each
shard serves the indices of the elements that it owns, and no table moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtensor.dialect.mlir import ir
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.ops import padding
from dtensor.passes.ops.attributes import integers
from dtensor.passes.ops.indexing import (
    IndexedDims,
    clamped,
    gather_dims,
    index_columns,
    index_vectors,
    say_whole,
)
from dtensor.passes.ops.opdef import OpDef, local
from dtensor.passes.ops.reduction import Reduction, reductions_of
from dtensor.passes.ops.rule import OpInfo, OpRule, RuleBuilder

ANY_INDEX = (1 << 63) - 1  # of a dimension of any size


def gather_rule(op: OpInfo) -> OpRule:
    """`vi,j->ji` reduce `v`: an embedding lookup; `v` is the vocabulary, `j` are the indices.

    A shard that does not own the element adds zero (false), so the result is a sum (an "or").
    Where the operand is in parts, every part is looked up by itself.
    """
    operand, indices = op.operand_shapes
    dims = gather_dims(op.operation, operand, len(indices))
    kinds = reductions_of(op.result_elements[0])
    owner = next((kind for kind in (Reduction.SUM, Reduction.OR) if kind in kinds), None)
    builder = RuleBuilder(op)
    for d, i, r in dims.batching:
        factor = builder.factor(operand[d])
        builder.operand(0, d, factor)
        builder.operand(1, i, factor)
        builder.result(0, r, factor)
    for i, r in dims.spread:
        factor = builder.factor(indices[i])
        builder.operand(1, i, factor)
        builder.result(0, r, factor)
    for d, r in dims.full:
        factor = builder.factor(operand[d])
        builder.operand(0, d, factor)
        builder.result(0, r, factor)
    for d, _ in dims.picked:
        if owner is None:
            builder.whole(0, d, f"shards of {op.result_elements[0]} cannot be added")
        else:
            builder.operand(0, d, builder.factor(operand[d], owner))
    say_whole(builder, dims, 1, len(indices))
    builder.passes_each(kinds, [True, False])
    return builder.build()


def expand_gather(op: LocalOp) -> Sequence[ir.Value[Any]] | None:
    """Local slice sizes; and of a split indexed dimension -0 for what others own."""
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
    columns = index_columns(ctx, indices, dims.vector_dim)
    mine: ir.Value[Any] | None = None
    for d, component in owned:
        size = op.operand_shapes[0][d]
        index = clamped(ctx, columns[component], size)
        local, is_here = ctx.localise_index(index, layout, d, size)
        columns[component] = ctx.convert(local, element)
        mine = is_here if mine is None else ctx.binary("and", mine, is_here)
    assert mine is not None
    result = ctx.tensor_type(op.local_result_shape(), op.result_element())
    vectors = index_vectors(ctx, columns, dims.vector_dim, len(op.operand_shapes[1]))
    local_gather = ctx.clone(op.operation)
    local_gather.operands[1] = vectors
    local_gather.attributes["indices_are_sorted"] = ir.BoolAttr.get(False)
    local_gather.results[0].set_type(result)
    index_places = sorted([*(r for _, _, r in dims.batching), *(r for _, r in dims.spread)])
    mask = ctx.broadcast(mine, op.local_result_shape(), index_places)
    return [ctx.select(mask, local_gather.results[0], ctx.identity("sum", result))]


def lengthen_gather(op: padding.Grown) -> None:
    """Windows that are whole stay so; no index leads beyond the true end."""
    assert op.rule.op is not None
    operand, indices = op.rule.op.operand_shapes
    dims = gather_dims(op.operation, operand, len(indices))
    sizes = integers(op.operation.attributes["slice_sizes"])
    for d, _ in dims.full:
        sizes[d] = op.operands[0][d]
    picked = {component: d for d, component in dims.picked if op.grows(0, d)}
    if any(op.grows(1, i) for i, _ in dims.spread):
        op.deny("indices_are_sorted")
    op.set_integers("slice_sizes", sizes)
    if not picked:
        return
    is_vector = dims.vector_dim < len(indices)
    count = indices[dims.vector_dim] if is_vector else 1
    last = [operand[picked[c]] - 1 if c in picked else ANY_INDEX for c in range(count)]
    op.keep_within(1, last, dims.vector_dim if is_vector else None)


GATHER = OpDef(
    gather_rule,
    (local(expand_gather),),
    moves_only=True,
    padding=padding.Padding(padding.indexing, lengthen_gather),
)
