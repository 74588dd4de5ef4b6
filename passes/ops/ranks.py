"""dtensor.ranked: elements at known places of an order, of a split dimension without sorting it.

Where the dimension is split, the shards count (`counting`): 4 bits of the elements at a time, for
few places, or one at a time, which sends less in more steps. Of places near an end of the order
each shard gives as many of its own elements as stand between them and that end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dtensor.dialect.attributes import index_attr
from dtensor.dialect.dim import WHOLE
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import Value, ir
from dtensor.dialect.names import DIM, SIZE
from dtensor.passes.cost.model import all_gather_bytes, all_reduce_bytes
from dtensor.passes.creation import with_sizes
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.expansion.indices import index_element
from dtensor.passes.ops import padding
from dtensor.passes.ops.attributes import integer, shape_of, true_size
from dtensor.passes.ops.comparators import compare_by, sorted_by
from dtensor.passes.ops.counting import Counting, known_places, packed, searched
from dtensor.passes.ops.elements import element_kind
from dtensor.passes.ops.indexing import clamped, take_each
from dtensor.passes.ops.keys import orders
from dtensor.passes.ops.loops import numbered, take
from dtensor.passes.ops.opdef import (
    Algorithm,
    OpDef,
    Placed,
    Traffic,
    comparisons,
    is_cut,
    is_whole,
    named_dim,
    placed_of,
    says,
)
from dtensor.passes.ops.rule import FactorKind, OpInfo, OpRule, RuleBuilder, element_bytes


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
    firsts = wanted // max(places, 1) * len(set(searched(_places(op.operation, size), places)))
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


def _places(ranked: ir.Operation, size: int) -> list[int] | None:
    """The places in a dimension of this size; None where each row has its own, or none is known."""
    if len(shape_of(ranked.operands[1])) > 1:
        return None
    return known_places(ranked.operands[1], true_size(ranked, size))


def _counting(name: str, digit: int) -> Algorithm:
    def expand(op: LocalOp) -> Sequence[Value]:
        """The keys at the places, a few bits or one at a time, then the elements that have them."""
        is_up = orders(op.operation.regions[0].blocks[0]) == "up"
        dim = integer(op.operation.attributes[DIM])
        true = true_size(op.operation, op.operand_shapes[0][dim])
        return [Counting(op, dim, true, digit, is_up).elements()]

    return Algorithm(name, expand, is_cut(named_dim), lambda placed: count_bytes(placed, digit))


def _near_end(placed: Placed) -> tuple[int, bool] | None:
    """How many elements at one end of an order hold all places, and whether at its beginning."""
    op, dim = placed.op, named_dim(placed.op)
    size = op.operand_shapes[0][dim]
    places, true = _places(op.operation, size), true_size(op.operation, size)
    if not places:
        return None
    first, last = max(places) + 1, true - min(places)
    count, is_first = (first, True) if first <= last else (last, False)
    fits = count <= size // placed.operands[0].dims[dim].split
    return (count, is_first) if fits and (is_first or true == size) else None


def _gives_ends(placed: Placed) -> bool:
    """Whether contiguous shards have so many elements."""
    return is_cut(named_dim)(placed) and _near_end(placed) is not None


def end_bytes(placed: Placed) -> tuple[Traffic, ...]:
    """So many elements of every shard, on every device."""
    op, dim, end = placed.op, named_dim(placed.op), _near_end(placed)
    assert end is not None, "priced where it does not apply"
    word, places = placed.operands[0].dims[dim], op.operand_shapes[1][0]
    rows = math.prod(placed.shard(~0)) // max(places, 1)
    sent = rows * end[0] * element_bytes(op.operand_elements[0]) * word.split
    return (Traffic(word.axes, all_gather_bytes(sent, word.split), 1),)


def expand_ends(op: LocalOp) -> Sequence[Value]:
    """The first or last elements of every shard's order, and those at the places among them.

    Equal elements stand in the order of their shards. What is beyond the true end of the dimension
    stands behind all others: of each candidate its place would tell so, if shards were in order.
    """
    ctx, dim, end = op.ctx, integer(op.operation.attributes[DIM]), _near_end(placed_of(op))
    assert end is not None, "expanded where it does not apply"
    (count, is_first), layout = end, op.operand_layouts[0]
    size, word = op.operand_shapes[0][dim], layout.dims[dim]
    places = _places(op.operation, size) or ()
    local, true = size // word.split, true_size(op.operation, size)
    index = index_element(size)
    own = ctx.global_index(layout, dim, size, index)
    value = _sorted(op, op.operands[0], own, true)
    value = ctx.cut(value, dim, 0 if is_first else local - count, count)
    dims = list(layout.dims)
    after = Layout.of([*dims[:dim], WHOLE, *dims[dim + 1 :]], layout.mesh)
    shape = with_sizes(op.operand_shapes[0], dim, count * word.split)
    value = ctx.relayout(value, layout, after, shape)
    order = numbered(ctx, [s * local + c for s in range(word.split) for c in range(count)], index)
    value = _sorted(op, value, order, true)
    first = 0 if is_first else word.split * count - size
    return [take(ctx, value, numbered(ctx, [first + place for place in places], "i32"), dim)]


def _sorted(op: LocalOp, value: Value, index: Value, true: int) -> Value:
    """A value in its order; elements with an index of `true` or more stand behind all others."""
    ctx, dim = op.ctx, integer(op.operation.attributes[DIM])
    given = op.operation.regions[0].blocks[0]
    attributes = {"dimension": index_attr(dim), "is_stable": ir.BoolAttr.get(True)}
    if true == op.operand_shapes[0][dim]:
        (value,) = sorted_by(ctx, [value], attributes, lambda body: compare_by(given, body, -1))
        return value
    both = [value, ctx.broadcast(index, ctx.shape_of(value), [dim])]
    value, _ = sorted_by(ctx, both, attributes, lambda body: compare_by(given, body, 1, true))
    return value


def said_of_ranked(ranked: ir.Operation) -> tuple[object, ...]:
    """Where the dimension ends, which is no attribute of the operation's own, and the places."""
    size = shape_of(ranked.operands[0])[integer(ranked.attributes[DIM])]
    return says(SIZE)(ranked), tuple(_places(ranked, size) or ())


RANKED = OpDef(
    ranked_rule,
    (
        _counting("counts", 4),  # for few places
        _counting("bits", 1),
        Algorithm("ends", expand_ends, _gives_ends, end_bytes),
        Algorithm("local", expand_sorted, is_whole(named_dim)),
    ),
    flops=lambda op: comparisons(op, named_dim(op)),
    known=said_of_ranked,
    padding=padding.sized(named_dim),
)
