"""Gather: embedding lookups, and all other reading by computed index.

A dimension that is indexed element by element (the vocabulary of an embedding) can be split: each
shard serves the indices of the elements that it owns, and no table moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dtensor.dialect.mlir import Value, ir
from dtensor.passes.creation import integers_attr
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.ops import padding
from dtensor.passes.ops.attributes import integers
from dtensor.passes.ops.indexing import (
    ANY_INDEX,
    IndexedDims,
    clamped,
    index_columns,
    indexed_dims,
    say_whole,
    spread_windows,
)
from dtensor.passes.ops.opdef import OpDef, local
from dtensor.passes.ops.reduction import reductions_of
from dtensor.passes.ops.rule import OpInfo, OpRule, RuleBuilder


def gather_rule(op: OpInfo) -> OpRule:
    """`vi,j->ji` reduce `v`: an embedding lookup; `v` is the vocabulary, `j` are the indices.

    A shard that does not own the element adds zero (false), so the result is a sum (an "or").
    Of a window that lies across two shards each gives its elements. Where the operand is in parts,
    every part is looked up by itself.
    """
    dims = indexed_dims(op.operation, op.operand_shapes)
    builder = RuleBuilder(op)
    for d, i, r in dims.batching:
        builder.share((0, d), (1, i), (~0, r))
    for i, r in dims.spread:
        builder.share((1, i), (~0, r))
    for d, r in dims.full:
        builder.share((0, d), (~0, r))
    for d in (*(d for d, _ in dims.picked), *(d for d, _, _ in dims.cut)):
        builder.owned(d)
    say_whole(builder, dims, 1, len(op.operand_shapes[1]), [~0])
    builder.passes_each(reductions_of(op.result_elements[0]), [True, False])
    return builder.build()


@dataclass(frozen=True)
class Gathered:
    """What one device gathers from its shard of a table.

    Attributes:
        value: what is gathered; anything where another device owns it.
        is_here: whether this device owns an element, in the order of `places`.
        places: the dimensions of `value` that `is_here` has.
    """

    value: Value
    is_here: Value
    places: tuple[int, ...]


def expand_gather(op: LocalOp) -> Sequence[Value] | None:
    """Local slice sizes; and of a split indexed dimension -0 for what others own."""
    found = gathered_here(op)
    if found is None:
        return None
    nothing = op.ctx.identity("sum", found.value.type)
    return [op.ctx.select(found.is_here, found.value, nothing, found.places)]


def gathered_here(op: LocalOp) -> Gathered | None:
    """What a shard of a split indexed dimension gives; None, and local sizes, where it is whole."""
    dims, layout = indexed_dims(op.operation, op.operand_shapes), op.operand_layouts[0]
    sizes = integers(op.operation.attributes["slice_sizes"])
    for d, _ in dims.full:
        sizes[d] //= layout.dims[d].split
    op.set_integers("slice_sizes", sizes)
    picked = [(d, c) for d, c in dims.picked if layout.dims[d].split > 1]
    cut = [entry for entry in dims.cut if layout.dims[entry[0]].split > 1]
    return _gather_owned(op, dims, picked, cut) if picked or cut else None


def _gather_owned(
    op: LocalOp,
    dims: IndexedDims,
    picked: Sequence[tuple[int, int]],
    cut: Sequence[tuple[int, int, int]],
) -> Gathered:
    ctx, layout, shape = op.ctx, op.operand_layouts[0], op.operand_shapes[0]
    owned = [*picked, *((d, component) for d, component, _ in cut)]
    sizes = integers(op.operation.attributes["slice_sizes"])
    columns = index_columns(ctx, op.operands[1], dims.vector_dim)
    for d, component in owned:
        columns[component] = clamped(ctx, columns[component], shape[d] - sizes[d] + 1)
    windows = [(component, r, sizes[d]) for d, component, r in cut]
    spread = spread_windows(ctx, columns, dims, windows, len(op.operand_shapes[1]))
    mine: list[Value] = []
    for d, component in owned:
        index = spread.columns[component]
        local, is_here = ctx.localise_index(index, layout, d, shape[d])
        spread.columns[component] = ctx.convert(local, ctx.element_of(index))
        mine.append(is_here)
    local_gather = op.again([op.operands[0], spread.vectors(ctx)])
    for d, _, _ in cut:
        sizes[d] = 1
    local_gather.attributes["slice_sizes"] = integers_attr(sizes)
    spread.write(local_gather, [d for d, _, _ in cut])
    local_gather.attributes["indices_are_sorted"] = ir.BoolAttr.get(False)
    return Gathered(local_gather.results[0], ctx.combined("and", mine), spread.places)


def lengthen_gather(op: padding.Grown) -> None:
    """Windows that are whole stay so; no index leads beyond the true end."""
    operand, indices, *_ = op.info.operand_shapes
    dims = indexed_dims(op.operation, op.info.operand_shapes)
    sizes = integers(op.operation.attributes["slice_sizes"])
    for d, _ in dims.full:
        sizes[d] = op.operands[0][d]
    indexed = [*dims.picked, *((d, component) for d, component, _ in dims.cut)]
    picked = {component: d for d, component in indexed if op.grows(0, d)}
    if any(op.grows(1, i) for i, _ in dims.spread):
        op.deny("indices_are_sorted")
    op.set_integers("slice_sizes", sizes)
    if not picked:
        return
    is_vector = dims.vector_dim < len(indices)
    count = indices[dims.vector_dim] if is_vector else 1
    ends = {component: operand[d] - sizes[d] for component, d in picked.items()}
    last = [ends.get(component, ANY_INDEX) for component in range(count)]
    op.keep_within(1, last, dims.vector_dim if is_vector else None)


GATHER = OpDef(
    gather_rule,
    (local(expand_gather),),
    moves_only=True,
    padding=padding.Padding(padding.indexing, lengthen_gather),
)
