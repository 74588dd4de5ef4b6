"""dtensor.ranked: elements at known places of an order, of a split dimension without sorting it.

Where the dimension is split, the shards count (`counting`): 4 bits of the elements at a time, for
few places, or one at a time, which sends less in more steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dtensor.dialect.attributes import index_attr
from dtensor.dialect.mlir import Value, ir
from dtensor.dialect.names import DIM, SIZE
from dtensor.passes.cost.model import all_gather_bytes, all_reduce_bytes
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.ops import padding
from dtensor.passes.ops.attributes import integer, shape_of, true_size
from dtensor.passes.ops.comparators import compare_by, sorted_by
from dtensor.passes.ops.counting import Counting, known_places, packed, searched
from dtensor.passes.ops.elements import element_kind
from dtensor.passes.ops.indexing import clamped, take_each
from dtensor.passes.ops.keys import orders
from dtensor.passes.ops.loops import take
from dtensor.passes.ops.opdef import (
    Algorithm,
    OpDef,
    Placed,
    Traffic,
    comparisons,
    is_cut,
    is_whole,
    named_dim,
    says,
)
from dtensor.passes.ops.rule import FactorKind, OpInfo, OpRule, RuleBuilder


def ranked_rule(op: OpInfo) -> OpRule:
    """`ij,k->ik`, or `ij,ki->ik`; of a split `j`, which is ordered, the shards count."""
    builder, dim = RuleBuilder(op), named_dim(op)
    has_rows = len(op.operand_shapes[1]) > 1
    for d in range(len(op.operand_shapes[0])):
        if d == dim:
            builder.share((0, d), kind=FactorKind.ORDER)
        else:
            builder.share((0, d), (~0, d), *[(1, d + (d < dim))] * has_rows)
    builder.whole(1, 0, "says which elements are wanted")
    return builder.build()


def count_bytes(placed: Placed, digit: int) -> tuple[Traffic, ...]:
    """Counts for each digit of each key that is looked for; then where its element is."""
    op, dim = placed.op, named_dim(placed.op)
    word, size = placed.operands[0].dims[dim], op.operand_shapes[0][dim]
    bits = element_kind(op.operand_elements[0])[1]
    wanted = math.prod(placed.shard(~0))
    places = op.operand_shapes[1][0]
    firsts = wanted // max(places, 1) * len(set(searched(_places(op.operation), places)))
    rounds, counts = bits // digit, (1 << digit) - 1
    sums = [packed(firsts * counts, size) * 4] * rounds + [wanted * bits / 8]
    if firsts < wanted:
        sums += [packed(firsts, size) * 4, firsts * bits / 8]
    wire = sum(all_reduce_bytes(each, word.split) for each in sums)
    wire += all_gather_bytes(packed(wanted, size) * 4 * word.split, word.split)
    return (Traffic(word.axes, wire, len(sums) + 1),)


def expand_sorted(op: LocalOp) -> Sequence[Value]:
    """Sorted, and read at the places."""
    ctx, dim = op.ctx, integer(op.operation.attributes[DIM])
    value, places = op.operands
    true = true_size(op.operation, op.operand_shapes[0][dim])
    value = ctx.cut(value, dim, 0, true)
    attributes = {"dimension": index_attr(dim), "is_stable": ir.BoolAttr.get(True)}
    given = op.operation.regions[0].blocks[0]
    (value,) = sorted_by(ctx, [value], attributes, lambda body: compare_by(given, body, -1))
    places = clamped(ctx, places, true)
    if len(ctx.shape_of(places)) > 1:
        return [take_each(ctx, value, places, dim)]
    return [take(ctx, value, places, dim)]


def _places(ranked: ir.Operation) -> list[int] | None:
    shape = shape_of(ranked.operands[0])
    if len(shape_of(ranked.operands[1])) > 1:
        return None  # each row has its own
    true = true_size(ranked, shape[integer(ranked.attributes[DIM])])
    return known_places(ranked.operands[1], true)


def _counting(name: str, digit: int) -> Algorithm:
    def expand(op: LocalOp) -> Sequence[Value]:
        """The keys at the places, a few bits or one at a time, then the elements that have them."""
        is_up = orders(op.operation.regions[0].blocks[0]) == "up"
        dim = integer(op.operation.attributes[DIM])
        true = true_size(op.operation, op.operand_shapes[0][dim])
        return [Counting(op, dim, true, digit, is_up).elements()]

    return Algorithm(name, expand, is_cut(named_dim), lambda placed: count_bytes(placed, digit))


def said_of_ranked(ranked: ir.Operation) -> tuple[object, ...]:
    """Where the dimension ends, which is no attribute of the operation's own, and the places."""
    return says(SIZE)(ranked), tuple(_places(ranked) or ())


RANKED = OpDef(
    ranked_rule,
    (
        _counting("counts", 4),  # for few places
        _counting("bits", 1),
        Algorithm("local", expand_sorted, is_whole(named_dim)),
    ),
    flops=lambda op: comparisons(op, named_dim(op)),
    known=said_of_ranked,
    padding=padding.sized(named_dim),
)
