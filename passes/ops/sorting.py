"""Sort and top_k: rows are sorted each by itself, a split row by exchanges or by its candidates."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dtensor.dialect.attributes import index_attr
from dtensor.dialect.dim import WHOLE, Dim
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import Value, forget, ir
from dtensor.dialect.names import PLACES, SIZE
from dtensor.passes.cost.model import all_gather_bytes, permute_bytes
from dtensor.passes.expansion.context import ExpansionContext, LocalOp
from dtensor.passes.expansion.indices import index_element
from dtensor.passes.ops import padding
from dtensor.passes.ops.accuracy import series
from dtensor.passes.ops.attributes import true_size
from dtensor.passes.ops.columnsort import (
    columnsort_bytes,
    count_from_front,
    exchanges,
    expand_exchange,
    sorted_dimension,
)
from dtensor.passes.ops.comparators import compare_numbers, sorted_by
from dtensor.passes.ops.elements import element_kind
from dtensor.passes.ops.exchanges import permuted
from dtensor.passes.ops.linalg import leading
from dtensor.passes.ops.opdef import (
    Algorithm,
    OpDef,
    Placed,
    Traffic,
    comparisons,
    is_whole,
    placed_of,
    says,
)
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.ops.rule import FactorKind, OpInfo, OpRule, RuleBuilder, element_bytes


def sort_rule(op: OpInfo) -> OpRule:
    """`ij,ij->ij,ij`; a split `j`, which is sorted, is exchanged between its shards."""
    builder = RuleBuilder(op)
    for d in range(len(op.operand_shapes[0])):
        kind = FactorKind.ORDER if d == sorted_dimension(op) else None
        builder.share(*builder.everywhere(d), kind=kind)
    return builder.build()


def whole_top_k_rule(op: OpInfo) -> OpRule:
    """`ij->ik,ik`; the last dimension, of which the k largest are taken, is whole."""
    return leading(op, len(op.operand_shapes[0]) - 1, "has its largest elements taken").build()


def top_k_rule(op: OpInfo) -> OpRule:
    """`ij->ik,ik`; of a split `j` each shard gives its k largest, and the k largest of those."""
    builder = RuleBuilder(op)
    last = len(op.operand_shapes[0]) - 1
    for d in range(last):
        builder.share(*builder.everywhere(d))
    if 0 not in op.result_shapes[0]:
        builder.share((0, last), kind=FactorKind.ORDER)
    return builder.build()


def sort_flops(op: OpInfo) -> float:
    """N log2 n comparisons of each row, which all operands are moved by."""
    return comparisons(op, sorted_dimension(op)) * len(op.operand_shapes)


def _splits_blocks(placed: Placed) -> bool:
    """Whether it is split, all of it or each of some blocks, and shards are in order."""
    word = placed.operands[0].dims[-1]
    return word.split > 1 and not any(isinstance(digit, int) for digit in word.digits[1:])


def _blocks(word: Dim) -> int:
    """How many blocks of a dimension are split, each by itself."""
    first = word.digits[0]
    return first if isinstance(first, int) else 1


def candidate_bytes(placed: Placed) -> tuple[Traffic, ...]:
    """The candidates of every shard and their indices, on every device."""
    op, word = placed.op, placed.operands[0].dims[-1]
    rows = math.prod(placed.shard(~0)[:-1])
    count = min(op.operand_shapes[0][-1] // word.split, op.result_shapes[0][-1])
    wire = sum(
        all_gather_bytes(rows * count * word.split * element_bytes(element), word.split)
        for element in op.result_elements
    )
    return (Traffic(word.axes, wire, 2),)


def expand_candidates(op: LocalOp) -> Sequence[Value]:
    """Each shard's largest are gathered, and the largest of them taken.

    Of equal ones the first is taken, which among candidates stands first too. What is behind the
    true end of a row is masked before: with the least number there is, which is taken nowhere that
    a row has enough elements, and among the candidates with what even a NaN precedes.
    """
    ctx, layout = op.ctx, op.operand_layouts[0]
    size, taken, dim = op.operand_shapes[0][-1], op.result_shapes[0][-1], layout.rank - 1
    word = layout.dims[dim]
    true, value = true_size(op.operation, size), op.operands[0]
    if true < size:
        place = ctx.global_index(layout, dim, size, index_element(size))
        element = ctx.element_of(value)
        least = ctx.identity(Reduction.MAX.on(element), ctx.tensor_type((), element))
        value = ctx.kept_before(value, dim, place, true, least)
    values, index = _largest(op, value, min(size // word.split, taken))
    index = _global_places(op, index, size)
    before = Layout.of((*layout.dims[:-1], Dim(word.axes)), layout.mesh)
    after = Layout.of((*layout.dims[:-1], WHOLE), layout.mesh)
    shape = (*op.operand_shapes[0][:-1], ctx.shape_of(index)[-1] * word.split)
    values, index = (ctx.relayout(v, before, after, shape) for v in (values, index))
    values, index = _in_order(op, values, index)
    if true < size and element_kind(ctx.element_of(values))[0] == "float":
        none = ctx.broadcast(_before_none(ctx, values), ctx.shape_of(values), range(dim))
        values = ctx.select(ctx.compare("LT", index, true), values, none)
    best, place = _largest(op, values, taken)
    return [best, ctx.along_last(index, place)]


def _pairs_up(placed: Placed) -> bool:
    """Whether shards, of as many elements as are taken, can exchange what they have by pairs."""
    split = placed.operands[0].dims[-1].split
    is_power = split & (split - 1) == 0
    size, taken = placed.op.operand_shapes[0][-1], placed.op.result_shapes[0][-1]
    fits = is_power and size // split >= taken and not placed.op.has(SIZE)
    return fits and _splits_blocks(placed)


def pair_bytes(placed: Placed) -> tuple[Traffic, ...]:
    """The candidates of one shard and their indices, once for each doubling."""
    op, word = placed.op, placed.operands[0].dims[-1]
    count = math.prod(placed.shard(~0))
    steps = word.split.bit_length() - 1
    wire = steps * sum(permute_bytes(count * element_bytes(e)) for e in op.result_elements)
    return (Traffic(word.axes, wire, 2 * steps),)


def expand_pairs(op: LocalOp) -> Sequence[Value]:
    """Shards at a distance of 1, 2, 4 ... give each other their largest, and keep the best of both.

    Of equal ones the first is taken: those of the shards that stand first are put in front. For
    rows of few, XLA's CPU code compiles a choice of two orders in a quarter of the time that it
    takes for an order of two choices.
    """
    ctx, layout = op.ctx, op.operand_layouts[0]
    size, taken, dim = op.operand_shapes[0][-1], op.result_shapes[0][-1], layout.rank - 1
    word = layout.dims[dim]
    values, index = _largest(op, op.operands[0], taken)
    index = _global_places(op, index, size)
    shard, distance = ctx.axis_index(word.axes), 1
    while distance < word.split:
        sources = [k ^ distance for k in range(word.split)]
        bit = ctx.binary("and", shard, distance)
        is_first = ctx.compare("EQ", bit, 0)
        both = []
        for own in (values, index):
            other = permuted(ctx, own, word.axes, sources)
            front, behind = ctx.joined([own, other], dim), ctx.joined([other, own], dim)
            both.append(ctx.select(is_first, front, behind))
        values, index = _in_order(op, both[0], both[1])
        values, place = _largest(op, values, taken)
        index = ctx.along_last(index, place)
        distance *= 2
    return [values, index]


def _in_order(op: LocalOp, values: Value, index: Value) -> tuple[Value, Value]:
    """Candidates of all shards as they stand in a row; those of equal value at least.

    Where a dimension is split they do. Where each of some blocks is, the first of one shard and
    those of another stand in both orders.
    """
    ctx, last = op.ctx, len(op.operand_shapes[0]) - 1
    if _blocks(op.operand_layouts[0].dims[-1]) == 1:
        return values, index
    attributes = {"dimension": index_attr(last), "is_stable": ir.BoolAttr.get(False)}
    index, values = sorted_by(ctx, [index, values], attributes, compare_numbers)
    return values, index


def _global_places(op: LocalOp, index: Value, size: int) -> Value:
    """Where elements of the shard stand in the whole dimension, or in each of its blocks."""
    ctx, layout = op.ctx, op.operand_layouts[0]
    word = layout.dims[-1]
    blocks, element = _blocks(word), ctx.element_of(index)
    own = size // word.split // blocks  # of a block
    shard = ctx.convert(ctx.axis_index(word.axes), element)
    first = ctx.times(shard, own)
    if blocks > 1:
        block = ctx.over(index, own)
        first = ctx.binary("add", first, ctx.times(block, size // blocks - own))
    return ctx.binary("add", index, first)


def expand_whole(op: LocalOp) -> Sequence[Value] | None:
    """Rows are taken as they are, without what is behind their true end."""
    size = op.operand_shapes[0][-1]
    true = true_size(op.operation, size)
    if true == size:
        return None
    shape = op.ctx.shape_of(op.operands[0])
    value = op.ctx.cut(op.operands[0], len(shape) - 1, 0, true)
    return list(_largest(op, value, op.result_shapes[0][-1]))


def _before_none(ctx: ExpansionContext, values: Value) -> Value:
    """For each row what none of its elements precedes: of those with a negative NaN, such a one."""
    shape, element = ctx.read_type(values.type)
    bits = f"i{element_kind(element)[1]}"
    pattern = ctx.bitcast(values, bits)
    is_negative = ctx.compare("LT", pattern, 0)
    is_nan = ctx.compare("NE", values, values)
    last = len(shape) - 1
    has_any = ctx.reduced(ctx.binary("and", is_negative, is_nan), last, Reduction.OR)
    ones = ctx.constant(-1, ctx.tensor_type(shape[:last], bits))
    nan = ctx.bitcast(ones, element)
    return ctx.select(has_any, nan, ctx.identity(Reduction.MAX, nan.type))


def _largest(op: LocalOp, value: Value, count: int) -> tuple[Value, Value]:
    """The `count` largest of each row, and where they stand."""
    shape, element = op.ctx.read_type(value.type)
    kinds = element, op.result_element(1)
    copy = op.again([value], [op.ctx.tensor_type((*shape[:-1], count), kind) for kind in kinds])
    forget(copy, SIZE)
    copy.attributes["k"] = index_attr(count)
    return copy.results[0], copy.results[1]


def sort_ties(op: OpInfo) -> list[padding.TiedDims]:
    """Rows may be longer; what is beyond their end stays there."""
    count = len(op.operand_shapes)
    if not op.operand_shapes[0]:
        return []
    dim = sorted_dimension(op)
    return [tuple(padding.Along(slot, dim) for k in range(count) for slot in (k, ~k))]


def lengthen_sort(op: padding.Grown) -> None:
    """Say where rows end."""
    dim = sorted_dimension(op.info)
    if op.operands[0]:
        op.say_size(dim)


def _sorts_whole(placed: Placed) -> bool:
    dim = sorted_dimension(placed.op)
    return all(layout.dims[dim].split == 1 for layout in placed.operands if layout.rank)


def expand_rows(op: LocalOp) -> Sequence[Value] | None:
    """Every row by itself, without what is beyond its end; what was said of it has served."""
    if SIZE not in op.operation.attributes:
        forget(op.operation, PLACES)
        return None
    ctx, dim = op.ctx, sorted_dimension(placed_of(op).op)
    size = op.operand_shapes[0][dim]
    true = true_size(op.operation, size)
    forget(op.operation, PLACES, SIZE)
    rows = [ctx.cut(value, dim, 0, true) for value in op.operands]
    found = op.again(rows, [row.type for row in rows]).results
    return [ctx.lengthened(value, dim, 0, size) for value in found]


SORT = OpDef(
    sort_rule,
    (
        Algorithm("columnsort", expand_exchange, exchanges, columnsort_bytes),
        Algorithm("local", expand_rows, _sorts_whole),
    ),
    flops=sort_flops,
    settle=count_from_front,
    known=says(PLACES, SIZE),
    padding=padding.Padding(refit=lengthen_sort, ties=sort_ties),
)
TOP_K = OpDef(
    top_k_rule,
    (
        Algorithm("gather_candidates", expand_candidates, _splits_blocks, candidate_bytes),
        Algorithm("pairs", expand_pairs, _pairs_up, pair_bytes),
        Algorithm("local", expand_whole, is_whole(lambda op: -1)),
    ),
    flops=lambda op: comparisons(op, -1),
    accuracy=series,
    known=says(SIZE),
    padding=padding.sized(lambda op: len(op.operand_shapes[0]) - 1),
)
