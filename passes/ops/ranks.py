"""dtensor.ranked: elements at known places of an order, of a split dimension without sorting it.

The key of the element at a place is found digit by digit: how many keys of all shards are below
each of 15 numbers says which 4 bits are next. One bit at a time sends less, in more steps: that is
for many places. Of elements with that key, the one in the right shard is the one that stood there
first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from dtensor.dialect.attributes import index_attr
from dtensor.dialect.dim import WHOLE, Dim, canonical_digits
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import ir
from dtensor.dialect.names import ALL_REDUCE, AXES, DIM, REDUCTION, SIZE
from dtensor.passes.builder import integer_attr
from dtensor.passes.cost.model import all_gather_bytes, all_reduce_bytes
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.expansion.indices import index_element
from dtensor.passes.ops import padding
from dtensor.passes.ops.attributes import integer
from dtensor.passes.ops.comparators import compare_by
from dtensor.passes.ops.elements import element_kind
from dtensor.passes.ops.indexing import clamped, take
from dtensor.passes.ops.keys import bits_of, keys_of, numbers_of, orders, turned
from dtensor.passes.ops.loops import numbered
from dtensor.passes.ops.opdef import Algorithm, OpDef, Placed, Traffic
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.ops.rule import FactorKind, OpInfo, OpRule, RuleBuilder

Value = ir.Value[Any]
_FEW, _MANY = 4, 1  # bits of a digit, for few places and for many


def ranked_rule(op: OpInfo) -> OpRule:
    """`ij,k->ik`; of a split `j`, which is ordered, the shards count."""
    builder, dim = RuleBuilder(op), integer(op.attribute(DIM))
    for d, size in enumerate(op.operand_shapes[0]):
        factor = builder.factor(size, kind=FactorKind.ORDER if d == dim else None)
        builder.operand(0, d, factor)
        if d != dim:
            builder.result(0, d, factor)
    builder.whole(1, 0, "says which elements are wanted")
    return builder.build()


def ranked_flops(op: OpInfo) -> float:
    """As of a sort."""
    shape = op.operand_shapes[0]
    return math.prod(shape) * math.log2(max(shape[integer(op.attribute(DIM))], 2))


def _is_split(placed: Placed) -> bool:
    word = placed.operands[0].dims[integer(placed.op.attribute(DIM))]
    return word.split > 1 and word.is_contiguous


def _is_whole(placed: Placed) -> bool:
    return placed.operands[0].dims[integer(placed.op.attribute(DIM))].split == 1


def count_bytes(placed: Placed, digit: int) -> tuple[Traffic, ...]:
    """Counts for each digit of each key that is looked for; then where its element is."""
    op, dim = placed.op, integer(placed.op.attribute(DIM))
    word = placed.operands[0].dims[dim]
    bits = element_kind(op.operand_elements[0])[1]
    wanted = math.prod(placed.results[0].local_shape(op.result_shapes[0]))
    rounds, counts = bits // digit, (1 << digit) - 1
    wire = rounds * all_reduce_bytes(wanted * counts * 4, word.split)
    wire += all_gather_bytes(wanted * 4 * word.split, word.split)
    wire += all_reduce_bytes(wanted * bits / 8, word.split)
    return (Traffic(word.axes, wire, rounds + 2),)


def expand_sorted(op: LocalOp) -> Sequence[Value]:
    """Sorted, and read at the places."""
    ctx, dim = op.ctx, integer(op.operation.attributes[DIM])
    value, places = op.operands
    true = _true_size(op)
    value = ctx.cut(value, dim, 0, true)
    attributes = {"dimension": index_attr(dim), "is_stable": ir.BoolAttr.get(True)}
    made = ctx.create("stablehlo.sort", [value], [value.type], attributes, regions=1)
    scalar = ctx.tensor_type((), ctx.element_of(value))
    body = made.regions[0].blocks.append(scalar, scalar, arg_locs=[made.location] * 2)
    compare_by(op.operation.regions[0].blocks[0], body, -1)
    return [take(ctx, made.results[0], clamped(ctx, places, true), dim)]


def _true_size(op: LocalOp) -> int:
    """How many elements along the dimension are ordered."""
    given = op.operation.attributes
    return integer(given[SIZE]) if SIZE in given else op.operand_shapes[0][integer(given[DIM])]


def expand_counts(op: LocalOp) -> Sequence[Value]:
    """The keys at the places, 4 bits at a time, then the elements that have them."""
    return [_Counting(op, _FEW).elements()]


def expand_bits(op: LocalOp) -> Sequence[Value]:
    """The keys at the places, bit by bit, then the elements that have them."""
    return [_Counting(op, _MANY).elements()]


class _Counting:
    """One op. Tensors of what is wanted have its places in front of the other dimensions."""

    def __init__(self, op: LocalOp, digit: int) -> None:
        self.op, self.ctx, self.digit = op, op.ctx, digit
        self.dim = integer(op.operation.attributes[DIM])
        self.word = op.operand_layouts[0].dims[self.dim]
        self.size = op.operand_shapes[0][self.dim]
        shape = op.ctx.shape_of(op.operands[0])
        # The dimension that is ordered comes last.
        order = [d for d in range(len(shape)) if d != self.dim] + [self.dim]
        self.given = op.ctx.transpose(op.operands[0], order)
        self.keys = keys_of(op.ctx, self.given, orders(op.operation.regions[0].blocks[0]) == "up")
        self.local = shape[self.dim]
        true = _true_size(op)
        if true < self.size:
            self.keys = self._last_beyond(true)
        self.places = op.ctx.convert(clamped(op.ctx, op.operands[1], true), "i32")
        self.wanted = (*op.ctx.shape_of(self.places), *op.ctx.shape_of(self.given)[:-1])

    def _last_beyond(self, true: int) -> Value:
        """The keys, the largest there is beyond the end: of equal ones those stand last."""
        ctx, layout = self.ctx, self.op.operand_layouts[0]
        shape = ctx.shape_of(self.keys)
        index = ctx.global_index(layout, self.dim, self.size, index_element(self.size))
        inside = ctx.compare("LT", index, ctx.constant_like(true, index))
        inside = ctx.broadcast(inside, shape, [len(shape) - 1])
        return ctx.select(inside, self.keys, turned(ctx, ctx.zeros(self.keys.type)))

    def elements(self) -> Value:
        """What stands at the places."""
        ctx, rank = self.ctx, len(self.wanted)
        ranks = ctx.broadcast(self.places, self.wanted, [0])
        key, below = self._lowest(
            ctx.element_of(self.keys), ranks, lambda edges: self._all(self._counted("LT", edges))
        )
        equal = self._counted("EQ", key)
        number = ctx.binary("subtract", ranks, ctx.binary("add", below, self._before(equal)))
        place, _ = self._lowest(
            index_element(self.local), number, lambda edges: self._counted("EQ", key, edges)
        )
        is_there = ctx.compare("GE", number, ctx.zeros(number.type))
        is_there = ctx.binary("and", is_there, ctx.compare("LT", number, equal))
        bits = self._all(ctx.select(is_there, self._bits_at(place), self._no_bits()))
        found = numbers_of(ctx, bits, ctx.element_of(self.given))
        return ctx.transpose(found, [*range(1, self.dim + 1), 0, *range(self.dim + 1, rank)])

    def _lowest(
        self, element: str, ranks: Value, count: Callable[[Value], Value]
    ) -> tuple[Value, Value]:
        """The largest numbers of which no more than `ranks` are below, and how many are.

        Args:
            element: unsigned integers, or indices in a shard.
            ranks: one for each of what is wanted.
            count: how many are below each of `[edges, *wanted]` numbers.
        """
        ctx, edges = self.ctx, (1 << self.digit) - 1
        bits = element_kind(element)[1]
        if element == index_element(self.local):
            bits = -(-self.local.bit_length() // self.digit) * self.digit
        shape, inner = (edges, *self.wanted), list(range(1, len(self.wanted) + 1))
        key, below = ctx.zeros(ctx.tensor_type(self.wanted, element)), ctx.zeros(ranks.type)
        for shift in range(bits - self.digit, -1, -self.digit):
            steps = numbered(ctx, [k << shift for k in range(1, edges + 1)], element)
            above = ctx.broadcast(key, shape, inner)
            counts = count(ctx.binary("or", above, ctx.broadcast(steps, shape, [0])))
            is_passed = ctx.compare("LE", counts, ctx.broadcast(ranks, shape, inner))
            digit = ctx.reduced(ctx.convert(is_passed, element), 0, Reduction.SUM)
            passed = ctx.select(is_passed, counts, ctx.zeros(counts.type))
            below = ctx.binary("maximum", below, ctx.reduced(passed, 0, Reduction.MAX))
            key = ctx.binary("or", key, ctx.times(digit, 1 << shift))
        return key, below

    def _counted(self, direction: str, keys: Value, before: Value | None = None) -> Value:
        """How many keys of the shard compare so with each one given.

        Args:
            direction: LT or EQ.
            keys: of the shape of what is wanted.
            before: places, of a dimension more in front; only keys ahead of them count.
        """
        ctx = self.ctx
        shape = (*ctx.shape_of(keys if before is None else before), self.local)
        holds = ctx.compare(direction, self._own(self.keys, shape), self._each(keys, shape))
        if before is not None:
            place = ctx.iota(shape, len(shape) - 1, ctx.element_of(before))
            is_before = ctx.compare("LT", place, self._each(before, shape))
            holds = ctx.binary("and", holds, is_before)
        return ctx.reduced(ctx.convert(holds, "i32"), len(shape) - 1, Reduction.SUM)

    def _own(self, value: Value, shape: Sequence[int]) -> Value:
        """The elements of the shard against whatever is in front of them."""
        rank = len(self.ctx.shape_of(value))
        return self.ctx.broadcast(value, shape, list(range(len(shape) - rank, len(shape))))

    def _each(self, value: Value, shape: Sequence[int]) -> Value:
        """What is given against all elements of the shard, which come last."""
        rank = len(self.ctx.shape_of(value))
        return self.ctx.broadcast(value, shape, list(range(len(shape) - 1 - rank, len(shape) - 1)))

    def _bits_at(self, place: Value) -> Value:
        """The bits of the elements of the shard at places of it."""
        ctx, shape = self.ctx, (*self.wanted, self.local)
        is_it = ctx.compare(
            "EQ", ctx.iota(shape, len(shape) - 1, ctx.element_of(place)), self._each(place, shape)
        )
        bits = self._own(bits_of(ctx, self.given), shape)
        return ctx.reduced(
            ctx.select(is_it, bits, ctx.zeros(bits.type)), len(shape) - 1, Reduction.SUM
        )

    def _no_bits(self) -> Value:
        return self.ctx.zeros(self.ctx.tensor_type(self.wanted, self.ctx.element_of(self.keys)))

    def _all(self, value: Value) -> Value:
        """The sum over the shards."""
        ctx = self.ctx
        attributes = {AXES: ctx.axes(self.word.axes), REDUCTION: ir.StringAttr.get("sum")}
        return ctx.value(ALL_REDUCE, [value], value.type, attributes)

    def _before(self, counts: Value) -> Value:
        """The sum over the shards before this one."""
        ctx, layout = self.ctx, self.op.operand_layouts[0]
        p = self.word.split
        rest = [d for d in range(layout.rank) if d != self.dim]
        dims = (WHOLE, *[layout.dims[d] for d in rest])
        whole = (p, self.wanted[0], *[self.op.operand_shapes[0][d] for d in rest])
        split = Dim(canonical_digits(self.word.axes, ctx.mesh))
        before = Layout.of((split, *dims), layout.mesh)
        after = Layout.of((WHOLE, *dims), layout.mesh)
        rows = ctx.relayout(ctx.reshape(counts, (1, *self.wanted)), before, after, whole)
        shard = ctx.broadcast(ctx.axis_index(self.word.axes), ctx.shape_of(rows))
        is_before = ctx.compare("LT", ctx.iota(ctx.shape_of(rows), 0, "i32"), shard)
        return ctx.reduced(ctx.select(is_before, rows, ctx.zeros(rows.type)), 0, Reduction.SUM)


def ranked_ties(rule: OpRule, operation: ir.Operation) -> list[padding.Tie]:
    """The dimension that is ordered may be longer; only its own elements are counted."""
    return [(padding.Along(0, integer(operation.attributes[DIM])),)]


def lengthen_ranked(op: padding.Grown) -> None:
    """Say where the dimension ends."""
    dim = integer(op.operation.attributes[DIM])
    if op.grows(0, dim):
        op.operation.attributes[SIZE] = integer_attr(op.operands_before(0)[dim])


def said_of_ranked(ranked: ir.Operation) -> tuple[object, ...]:
    """Where the dimension ends, which is no attribute of the operation's own."""
    return (ranked.attributes[SIZE],) if SIZE in ranked.attributes else ()


RANKED = OpDef(
    ranked_rule,
    (
        Algorithm("counts", expand_counts, _is_split, lambda placed: count_bytes(placed, _FEW)),
        Algorithm("bits", expand_bits, _is_split, lambda placed: count_bytes(placed, _MANY)),
        Algorithm("local", expand_sorted, _is_whole),
    ),
    flops=ranked_flops,
    known=said_of_ranked,
    padding=padding.Padding(refit=lengthen_ranked, ties=ranked_ties),
)
