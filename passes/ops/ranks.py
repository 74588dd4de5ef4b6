"""dtensor.ranked: elements at known places of an order, of a split dimension without sorting it.

Where the dimension is split, the shards count (`counting`): 4 bits of the elements at a time, for
few places, or one at a time, which sends less in more steps. Of places near an end of the order
each shard gives as many of its own elements as stand between them and that end; of many rows these
are dealt, so that each shard has all of its share of the rows, and what it finds is gathered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from dtensor.dialect.attributes import index_attr
from dtensor.dialect.dim import WHOLE
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import Value, ir, is_read
from dtensor.dialect.names import DIM, SIZE
from dtensor.passes.cost.model import all_gather_bytes, all_reduce_bytes, all_to_all_bytes
from dtensor.passes.creation import Shape, with_sizes
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.expansion.indices import index_element
from dtensor.passes.ops import padding
from dtensor.passes.ops.attributes import integer, shape_of, true_size
from dtensor.passes.ops.comparators import compare_by, sorted_by
from dtensor.passes.ops.counting import Counting, known_places, packed, searched
from dtensor.passes.ops.dealt_rows import DealtRows
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
    """`ij,k->ik`, or `ij,ki->ik`, once or twice; of a split `j`, which is ordered, shards count."""
    builder, dim = RuleBuilder(op), named_dim(op)
    has_rows = len(op.operand_shapes[1]) > 1
    for d in range(len(op.operand_shapes[0])):
        if d == dim:
            builder.share((0, d), kind=FactorKind.ORDER)
        else:
            results = [(~k, d) for k in range(len(op.result_shapes))]
            builder.share((0, d), *results, *[(1, d + (d < dim))] * has_rows)
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
    sums: list[float] = [packed(firsts * counts, size) * 4] * rounds
    sums += [wanted * element_bytes(e) for e in _read_elements(op)]
    if firsts < wanted:
        sums += [packed(firsts, size) * 4, firsts * bits / 8]
    wire = sum(all_reduce_bytes(each, word.split) for each in sums)
    wire += all_gather_bytes(packed(wanted, size) * 4 * word.split, word.split)
    return (Traffic(word.axes, wire, len(sums) + 1),)


def _read_elements(op: OpInfo) -> list[str]:
    """The element types of the results that are read."""
    read = zip(op.operation.results, op.result_elements, strict=True)
    return [element for result, element in read if is_read(result)]


def expand_sorted(op: LocalOp) -> Sequence[Value]:
    """Sorted, and read at the places."""
    ctx, dim = op.ctx, integer(op.operation.attributes[DIM])
    value, places = op.operands
    true = true_size(op.operation, op.operand_shapes[0][dim])
    value = ctx.cut(value, dim, 0, true)
    both = [value]
    if len(op.result_shapes) > 1:
        both.append(ctx.iota(ctx.shape_of(value), dim, op.result_element(1)))
    attributes = {"dimension": index_attr(dim), "is_stable": ir.BoolAttr.get(True)}
    given = op.operation.regions[0].blocks[0]
    both = sorted_by(ctx, both, attributes, lambda body: compare_by(given, body, -1))
    places = clamped(ctx, places, true)
    if len(ctx.shape_of(places)) > 1:
        return [take_each(ctx, each, places, dim) for each in both]
    return [take(ctx, each, places, dim) for each in both]


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
        return Counting(op, dim, true, digit, is_up).found()

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


def _end_bytes(placed: Placed) -> list[float]:
    """Bytes of the elements that a shard gives, and of where they stand."""
    op, end = placed.op, _near_end(placed)
    assert end is not None, "priced where it does not apply"
    rows = math.prod(placed.shard(~0)) // max(op.operand_shapes[1][0], 1)
    return [rows * end[0] * element_bytes(element) for element in op.result_elements]


def end_bytes(placed: Placed) -> tuple[Traffic, ...]:
    """So many elements of every shard, on every device, and where they stand."""
    word = placed.operands[0].dims[named_dim(placed.op)]
    sent = _end_bytes(placed)
    wire = sum(all_gather_bytes(each * word.split, word.split) for each in sent)
    return (Traffic(word.axes, wire, len(sent)),)


def _dealt(placed: Placed) -> DealtRows | None:
    return DealtRows.of(placed.operands[0], placed.op.operand_shapes[0], named_dim(placed.op))


def _deals_ends(placed: Placed) -> bool:
    """Whether there are rows, too, that the shards can have among them."""
    return _gives_ends(placed) and _dealt(placed) is not None


def dealt_bytes(placed: Placed) -> tuple[Traffic, ...]:
    """The elements that a shard gives, each row's to the one that has it; then those wanted."""
    word, dealt = placed.operands[0].dims[named_dim(placed.op)], _dealt(placed)
    assert dealt is not None, "priced where it does not apply"
    wanted = math.prod(placed.shard(~0)) * sum(map(element_bytes, _read_elements(placed.op)))
    sent = _end_bytes(placed)
    wire = sum(all_to_all_bytes(each, word.split) for each in sent)
    wire += all_gather_bytes(wanted, word.split)
    return (Traffic(word.axes, wire * dealt.share, 2 * len(sent)),)


def expand_ends(op: LocalOp) -> Sequence[Value]:
    """The first or last elements of every shard's order, and those at the places among them."""
    dim, layout = integer(op.operation.attributes[DIM]), op.operand_layouts[0]
    dims = list(layout.dims)
    whole = Layout.of([*dims[:dim], WHOLE, *dims[dim + 1 :]], layout.mesh)

    def gather(value: Value, before: Layout, shape: Sequence[int]) -> Value:
        return op.ctx.relayout(value, before, whole, shape)

    return _of_ends(op, gather)


def expand_dealt(op: LocalOp) -> Sequence[Value]:
    """Of its rows each shard gets those elements of all shards, and all get what it finds."""
    dealt = _dealt(placed_of(op))
    assert dealt is not None, "expanded where it does not apply"
    found = _of_ends(op, partial(dealt.deal, op.ctx))
    return [dealt.collect(op.ctx, value, op.result_shapes[0]) for value in found]


def _of_ends(op: LocalOp, move: Callable[[Value, Layout, Shape], Value]) -> list[Value]:
    """What is at the places, of those rows to which `move` brings the elements near an end.

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
    both = _sorted(op, op.operands[0], own, true)
    both = [ctx.cut(each, dim, 0 if is_first else local - count, count) for each in both]
    shape = with_sizes(op.operand_shapes[0], dim, count * word.split)
    both = [move(each, layout, shape) for each in both]
    order = numbered(ctx, [s * local + c for s in range(word.split) for c in range(count)], index)
    both = _sorted(op, both[0], order, true, *both[1:])
    first = 0 if is_first else word.split * count - size
    wanted = numbered(ctx, [first + place for place in places], "i32")
    return [take(ctx, each, wanted, dim) for each in both]


def _sorted(op: LocalOp, value: Value, index: Value, true: int, *more: Value) -> list[Value]:
    """Sorted, what is beyond the true end last, and where it stood if that is a result.

    Args:
        op: the op.
        value: elements.
        index: says where each stands along the dimension; a 1-D tensor.
        true: how many elements the dimension has.
        more: what to sort along, if not the index.
    """
    ctx, dim = op.ctx, integer(op.operation.attributes[DIM])
    given = op.operation.regions[0].blocks[0]
    attributes = {"dimension": index_attr(dim), "is_stable": ir.BoolAttr.get(True)}
    has_end = true < op.operand_shapes[0][dim]
    index = ctx.broadcast(index, ctx.shape_of(value), [dim])
    along = list(more) or [index] * (len(op.result_shapes) > 1)
    if not has_end:
        return sorted_by(ctx, [value, *along], attributes, lambda body: compare_by(given, body, -1))
    both = [value, index, *more]
    found = sorted_by(ctx, both, attributes, lambda body: compare_by(given, body, 1, true))
    return [found[0], *found[len(found) - len(along) :]]


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
        Algorithm("deal_ends", expand_dealt, _deals_ends, dealt_bytes),
        Algorithm("local", expand_sorted, is_whole(named_dim)),
    ),
    flops=lambda op: comparisons(op, named_dim(op)),
    known=said_of_ranked,
    padding=padding.sized(named_dim),
)
