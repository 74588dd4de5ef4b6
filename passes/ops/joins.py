"""Concatenation along a dimension that is split in the parts and in the result alike.

The shards join what they have of the parts, and send one another the pieces that belong elsewhere:
of each element one copy, in rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dtensor.dialect.mlir import ir
from dtensor.passes.expansion.context import ExpansionContext, LocalOp
from dtensor.passes.ops.attributes import integer
from dtensor.passes.ops.loops import looked_up
from dtensor.passes.ops.opdef import Placed, Traffic
from dtensor.passes.ops.ring import permuted
from dtensor.passes.ops.rounds import MOST_SHARDS, Round, elements_sent, rounds_of
from dtensor.passes.ops.rule import FactorKind, OpInfo, OpRule, RuleBuilder
from dtensor.passes.ops.shape import pass_all

Value = ir.Value[Any]


def exchange_rule(op: OpInfo) -> OpRule | None:
    """`ij,ij->ij`, the joined dimension split at equal places of each part; None if one is empty.

    What a shard has of the parts is not what it must have of the result: it takes an algorithm.
    None for equal parts too: their join is blocks, which a relayout moves as well; and for those
    that no number of shards divides.
    """
    joined = integer(op.attribute("dimension"))
    sizes = {shape[joined] for shape in op.operand_shapes}
    if len(sizes) < 2 or 0 in sizes or math.gcd(*sizes) == 1:
        return None
    builder = RuleBuilder(op)
    for d, size in enumerate(op.result_shapes[0]):
        factor = builder.factor(size, kind=FactorKind.WINDOW if d == joined else None)
        builder.result(0, d, factor)
        for k in range(len(op.operand_shapes)):
            builder.operand(k, d, factor)
    pass_all(builder, len(op.operand_shapes))
    return builder.build()


def exchanges(placed: Placed) -> bool:
    """Whether the joined dimension is split alike in all parts, which are not empty, and result."""
    dim = integer(placed.op.attribute("dimension"))
    word = placed.results[0].dims[dim]
    sizes = [shape[dim] for shape in placed.op.operand_shapes]
    return (
        1 < word.split <= MOST_SHARDS
        and len(sizes) > 1
        and word.is_contiguous
        and all(layout.dims[dim] == word for layout in placed.operands)
        and all(size and size % word.split == 0 for size in sizes)
    )


def joins_locally(placed: Placed) -> bool:
    """Whether what a shard has of the parts is what it must have of the result."""
    return not exchanges(placed)


def exchange_bytes(placed: Placed) -> tuple[Traffic, ...]:
    """As much as the shard that has most to send or to receive."""
    from dtensor.passes.graph import element_bytes  # the graph reads the table of operations

    op, dim = placed.op, integer(placed.op.attribute("dimension"))
    word = placed.results[0].dims[dim]
    local = placed.results[0].local_shape(op.result_shapes[0])
    row = math.prod(n for d, n in enumerate(local) if d != dim)
    elements, count = elements_sent(_rounds(op.operand_shapes, dim, word.split))
    item = element_bytes(op.result_elements[0])
    return (Traffic(word.axes, float(elements * row * item), count),)


def expand_exchange(op: LocalOp) -> Sequence[Value]:
    """The local parts joined; then each round overwrites what it brings."""
    ctx, dim = op.ctx, integer(op.operation.attributes["dimension"])
    word = op.result_layouts[0].dims[dim]
    joined = result = ctx.joined(op.operands, dim)
    shard = ctx.axis_index(word.axes)
    for each in _rounds(op.operand_shapes, dim, word.split):
        value = _stretch(ctx, joined, dim, _places(ctx, shard, each.starts), each.count)
        if each.is_sent:
            value = permuted(ctx, value, word.axes, each.sources)
        result = _with(ctx, result, value, dim, shard, each)
    return [result]


def _rounds(shapes: Sequence[Sequence[int]], dim: int, shards: int) -> tuple[Round, ...]:
    return rounds_of(tuple([shape[dim] for shape in shapes]), shards)


def _with(
    ctx: ExpansionContext, result: Value, value: Value, dim: int, shard: Value, each: Round
) -> Value:
    """The result with what a round has brought, on the shards to which it has brought anything."""
    place = _places(ctx, shard, each.places)
    if -1 in each.sources:
        old = _stretch(ctx, result, dim, place, each.count)
        gets = looked_up(ctx, shard, [int(source != -1) for source in each.sources])
        gets = ctx.compare("NE", gets, ctx.constant_like(0, gets))
        value = ctx.select(gets, value, old)
    name = "stablehlo.dynamic_update_slice"
    starts = _starts(ctx, len(ctx.shape_of(result)), dim, place)
    return ctx.value(name, [result, value, *starts], result.type)


def _places(ctx: ExpansionContext, shard: Value, numbers: Sequence[int]) -> Value:
    """Each shard's number."""
    if len(set(numbers)) == 1:
        return ctx.constant_like(numbers[0], shard)
    return looked_up(ctx, shard, numbers)


def _stretch(ctx: ExpansionContext, value: Value, dim: int, start: Value, count: int) -> Value:
    shape = list(ctx.shape_of(value))
    starts = _starts(ctx, len(shape), dim, start)
    shape[dim] = count
    attributes = {"slice_sizes": ir.DenseI64ArrayAttr.get(shape)}
    type_ = ctx.tensor_type(shape, ctx.element_of(value))
    return ctx.value("stablehlo.dynamic_slice", [value, *starts], type_, attributes)


def _starts(ctx: ExpansionContext, rank: int, dim: int, start: Value) -> list[Value]:
    zero = ctx.constant_like(0, start)
    return [start if d == dim else zero for d in range(rank)]
