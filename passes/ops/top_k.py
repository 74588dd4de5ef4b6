"""top_k: the largest elements of each row, of a split row by the largest of its shards.

What its shards give, the candidates, is gathered, or exchanged by pairs of shards. Of many rows it
is less to deal them: each shard gets all candidates of its own share of the rows, and what it takes
of these is gathered, unless it is wanted so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from dtensor.dialect.attributes import index_attr
from dtensor.dialect.dim import WHOLE, Dim
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import Value, forget, ir
from dtensor.dialect.names import SIZE
from dtensor.passes.cost.model import all_gather_bytes, all_to_all_bytes, permute_bytes
from dtensor.passes.creation import Shape
from dtensor.passes.expansion.context import ExpansionContext, LocalOp
from dtensor.passes.expansion.indices import index_element
from dtensor.passes.ops import padding
from dtensor.passes.ops.accuracy import series
from dtensor.passes.ops.attributes import true_size
from dtensor.passes.ops.comparators import compare_numbers, sorted_by
from dtensor.passes.ops.dealt_rows import DealtRows
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


def _splits_blocks(placed: Placed) -> bool:
    """Whether it is split, all of it or each of some blocks, and shards are in order."""
    word = placed.operands[0].dims[-1]
    return word.split > 1 and not any(isinstance(digit, int) for digit in word.digits[1:])


def _blocks(word: Dim) -> int:
    """How many blocks of a dimension are split, each by itself."""
    first = word.digits[0]
    return first if isinstance(first, int) else 1


def _candidates(placed: Placed) -> int:
    """How many elements of a row each shard gives."""
    size, taken = placed.op.operand_shapes[0][-1], placed.op.result_shapes[0][-1]
    return min(size // placed.operands[0].dims[-1].split, taken)


def candidate_bytes(placed: Placed) -> tuple[Traffic, ...]:
    """The candidates of every shard and their indices, on every device."""
    word = placed.operands[0].dims[-1]
    rows = math.prod(placed.shard(~0)[:-1])
    sent = rows * _candidates(placed) * word.split
    wire = sum(
        all_gather_bytes(sent * element_bytes(element), word.split)
        for element in placed.op.result_elements
    )
    return (Traffic(word.axes, wire, 2),)


def _dealt(placed: Placed) -> DealtRows | None:
    layout = placed.operands[0]
    return DealtRows.of(layout, placed.op.operand_shapes[0], layout.rank - 1)


def _deals_rows(placed: Placed) -> bool:
    """Whether there are rows that the shards can have among them."""
    return _splits_blocks(placed) and _dealt(placed) is not None


def dealt_bytes(placed: Placed) -> tuple[Traffic, ...]:
    """The candidates of a shard, each row's to the one that has it; then what those take."""
    op, word, dealt = placed.op, placed.operands[0].dims[-1], _dealt(placed)
    assert dealt is not None, "priced where it does not apply"
    rows, taken = math.prod(placed.shard(~0)[:-1]) * dealt.share, op.result_shapes[0][-1]
    row = sum(map(element_bytes, op.result_elements))
    wire = all_to_all_bytes(rows * _candidates(placed) * row, word.split)
    wire += all_gather_bytes(rows * taken * row, word.split)
    return (Traffic(word.axes, wire, 4),)


def expand_candidates(op: LocalOp) -> Sequence[Value]:
    """Each shard's largest are gathered, and the largest of them taken."""
    layout = op.operand_layouts[0]
    whole = Layout.of((*layout.dims[:-1], WHOLE), layout.mesh)

    def gather(value: Value, before: Layout, shape: Sequence[int]) -> Value:
        return op.ctx.relayout(value, before, whole, shape)

    return _of_candidates(op, gather)


def expand_dealt(op: LocalOp) -> Sequence[Value]:
    """Of its rows each shard gets the largest of all shards, and takes the largest of them."""
    dealt = _dealt(placed_of(op))
    assert dealt is not None, "expanded where it does not apply"
    found = _of_candidates(op, partial(dealt.deal, op.ctx))
    return [dealt.collect(op.ctx, value, op.result_shapes[0]) for value in found]


def _of_candidates(op: LocalOp, move: Callable[[Value, Layout, Shape], Value]) -> list[Value]:
    """The largest of each shard's largest, of those rows to which `move` brings them.

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
    shape = (*op.operand_shapes[0][:-1], ctx.shape_of(index)[-1] * word.split)
    values, index = (move(value, before, shape) for value in (values, index))
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


TOP_K = OpDef(
    top_k_rule,
    (
        Algorithm("gather_candidates", expand_candidates, _splits_blocks, candidate_bytes),
        Algorithm("deal_candidates", expand_dealt, _deals_rows, dealt_bytes),
        Algorithm("pairs", expand_pairs, _pairs_up, pair_bytes),
        Algorithm("local", expand_whole, is_whole(lambda op: -1)),
    ),
    flops=lambda op: comparisons(op, -1),
    accuracy=series,
    known=says(SIZE),
    padding=padding.sized(lambda op: len(op.operand_shapes[0]) - 1),
)
