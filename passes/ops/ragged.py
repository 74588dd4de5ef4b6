"""chlo.ragged_dot: rows in groups, and for each group a matrix, or a product, of its own.

The rows of a group are neighbours. `group_sizes` says how many each has; rows behind the last group
belong to none. Which is the ragged dimension of the left operand tells what is computed:

    ragged      m of bmk, gbkn, bg -> bmn: each row times the matrix of its group
    contracted  m of bmk, bmn, bg -> gbkn: a sum over the rows of each group
    batched     g of gmk, gkn, g -> gmn: products as ever
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from dtensor.dialect.mlir import Value, chlo
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.expansion.indices import index_element
from dtensor.passes.ops import padding
from dtensor.passes.ops.accuracy import summed
from dtensor.passes.ops.contraction import products_flops
from dtensor.passes.ops.opdef import Algorithm, OpDef, Placed
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.ops.rule import FactorKind, OpInfo, OpRule, RuleBuilder

_NUMBERS = "ragged_dot_dimension_numbers"
_SIZES = 2  # the operand that has the sizes of the groups


@dataclass(frozen=True)
class _Numbers:
    """Which dimensions go together.

    Attributes:
        batching: pairs of dimensions of left and right that the result has.
        contracting: pairs of dimensions that are summed over.
        free: the other dimensions of left, and of right, without that of its groups.
        ragged: the dimension of left that has the groups one behind the other.
        group: the dimension that has an element for each group, of an operand or `~result`; None
            where no other has one.
        said: the dimension of the sizes by dimension of left; of left not all have one.
    """

    batching: tuple[tuple[int, int], ...]
    contracting: tuple[tuple[int, int], ...]
    free: tuple[tuple[int, ...], tuple[int, ...]]
    ragged: int
    group: tuple[int, int] | None
    said: dict[int, int]

    @classmethod
    def of(cls, op: OpInfo | LocalOp) -> Self:
        """What an op says."""
        numbers = chlo.RaggedDotDimensionNumbers(op.operation.attributes[_NUMBERS])
        batching = _pairs(numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions)
        contracting = _pairs(numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions)
        (ragged,), groups = numbers.lhs_ragged_dimensions, list(numbers.rhs_group_dimensions)
        free = []
        for k, others in ((0, []), (1, groups)):
            gone = {pair[k] for pair in (*batching, *contracting)} | set(others)
            free.append(tuple([d for d in range(len(op.operand_shapes[k])) if d not in gone]))
        batches, summed_over = ([left for left, _ in pairs] for pairs in (batching, contracting))
        group = (1, groups[0]) if groups else (~0, 0) if ragged in summed_over else None
        ahead = [*batches, *(free[0] if groups else summed_over)]
        ahead = ahead[: ahead.index(ragged)]
        said = {d: i for i, d in enumerate(ahead)} if len(op.operand_shapes[_SIZES]) > 1 else {}
        return cls(batching, contracting, (free[0], free[1]), ragged, group, said)

    def places(self, left: int) -> list[tuple[int, int]]:
        """A dimension of left, and that of the sizes that goes with it."""
        return [(0, left), *((_SIZES, i) for d, i in self.said.items() if d == left)]


def _pairs(left: Sequence[int], right: Sequence[int]) -> tuple[tuple[int, int], ...]:
    return tuple(zip(left, right, strict=True))


def ragged_dot_rule(op: OpInfo) -> OpRule:
    """`bmk,gbkn,bg->bmn` or `bmk,bmn,bg->gbkn`, where `g` is a sum or not; sizes are whole.

    A shard of rows has a part of some groups. A shard of groups has rows that are neighbours, if
    all batches have them at the same places; to others it gives zero.
    """
    numbers, builder = _Numbers.of(op), RuleBuilder(op)
    element = op.result_elements[0]
    made = itertools.count(1 if numbers.group == (~0, 0) else 0)
    for left, right in numbers.batching:
        builder.share(*numbers.places(left), (1, right), (~0, next(made)))
    for left, right in numbers.contracting:
        places = [*numbers.places(left), (1, right)]
        counts = left == numbers.ragged
        builder.share(*places, reduction=Reduction.SUM.on(element), counts=counts)
    for left in numbers.free[0]:
        builder.share(*numbers.places(left), (~0, next(made)), counts=left == numbers.ragged)
    for right in numbers.free[1]:
        builder.share((1, right), (~0, next(made)))
    if numbers.group is not None and numbers.said:
        builder.whole(*numbers.group, "is of groups that begin elsewhere in each batch")
    elif numbers.group is not None:
        is_sum = numbers.group[0] == 1
        reduction = Reduction.SUM.on(element) if is_sum else None
        builder.share(numbers.group, reduction=reduction, kind=FactorKind.SCAN)
    last = len(op.operand_shapes[_SIZES]) - 1
    builder.whole(_SIZES, last, "says of all groups where they are")
    return builder.build()


def _is_range(placed: Placed) -> bool:
    """Whether the groups of a shard are neighbours."""
    group = _Numbers.of(placed.op).group
    if group is None:
        return True
    slot, dim = group
    return placed.layout(slot).dims[dim].is_contiguous


def expand_ragged_dot(op: LocalOp) -> Sequence[Value] | None:
    """The product of the rows that the shard has, in the groups that it has.

    Of groups that begin further behind, the rows are moved to the front for it.
    """
    ctx, numbers = op.ctx, _Numbers.of(op)
    ragged, layout, size = numbers.ragged, op.operand_layouts[0], op.operand_shapes[0]
    sizes = op.operands[_SIZES]
    *ahead, groups = ctx.shape_of(sizes)
    many = _own_groups(op, numbers)
    if layout.dims[ragged].split == 1 and many == groups:
        return None
    bounds = _bounds(op, ctx.convert(sizes, index_element(size[ragged])))
    if layout.dims[ragged].split > 1:
        index = ctx.global_index(layout, ragged, size[ragged], ctx.element_of(bounds))
        bounds = _rows_before(op, bounds, index)
    if many < groups:
        assert numbers.group is not None
        slot, dim = numbers.group
        of_groups = op.operand_layouts[slot] if slot >= 0 else op.result_layouts[~slot]
        start = ctx.shard_offset(of_groups, dim, groups)
        assert start is not None
        bounds = ctx.stretch(bounds, 0, start, many + 1)
    last = len(ahead)
    counts = ctx.binary("subtract", ctx.cut(bounds, last, 1, many), ctx.cut(bounds, last, 0, many))
    own = ctx.convert(counts, ctx.element_of(sizes))
    if many == groups:
        return list(op.again([*op.operands[:_SIZES], own]).results)
    first, behind = (ctx.reshape(ctx.cut(bounds, 0, place, 1), ()) for place in (0, many))
    return [_of_groups(op, numbers, own, first, behind)]


def _own_groups(op: LocalOp, numbers: _Numbers) -> int:
    """How many groups the shard has."""
    if numbers.group is None:
        return op.operand_shapes[_SIZES][-1]
    slot, dim = numbers.group
    shape = op.ctx.shape_of(op.operands[slot]) if slot >= 0 else op.local_result_shape()
    return shape[dim]


def _bounds(op: LocalOp, sizes: Value) -> Value:
    """Where each group begins, and last where the last one ends."""
    ctx = op.ctx
    *ahead, groups = ctx.shape_of(sizes)
    last = len(ahead)
    table = (*ahead, groups + 1, groups)
    each = ctx.broadcast(sizes, table, [*range(last), last + 1])
    index = ctx.element_of(sizes)
    is_before = ctx.compare("LT", ctx.iota(table, last + 1, index), ctx.iota(table, last, index))
    return ctx.reduced(ctx.select(is_before, each, 0), last + 1, "sum")


def _rows_before(op: LocalOp, bounds: Value, index: Value) -> Value:
    """How many rows of the shard, of these global indices, lie before each bound."""
    ctx = op.ctx
    shape, (rows,) = ctx.shape_of(bounds), ctx.shape_of(index)
    table, last = (*shape, rows), len(shape)
    is_before = ctx.compare(
        "LT", ctx.broadcast(index, table, [last]), ctx.broadcast(bounds, table, range(last))
    )
    return ctx.reduced(ctx.convert(is_before, ctx.element_of(bounds)), last, "sum")


def _of_groups(op: LocalOp, numbers: _Numbers, own: Value, first: Value, behind: Value) -> Value:
    """The product with some groups, whose rows are those from `first` on, those `behind` not."""
    ctx, ragged = op.ctx, numbers.ragged
    places = dict(numbers.contracting)
    sides = [(0, ragged)] + ([(1, places[ragged])] if ragged in places else [])
    operands = [*op.operands[:_SIZES], own]
    rows = ctx.shape_of(operands[0])[ragged]
    for k, dim in sides:
        longer = ctx.lengthened(operands[k], dim, 0, 2 * rows)
        operands[k] = ctx.stretch(longer, dim, first, rows)
    made: Value = op.again(operands).results[0]
    if ragged in places:
        return made
    dim = len(numbers.batching) + numbers.free[0].index(ragged)
    shape = ctx.shape_of(made)
    row = ctx.iota(shape, dim, ctx.element_of(first))
    count = ctx.binary("subtract", behind, first)
    made = ctx.select(ctx.compare("LT", row, count), made, 0)
    longer = ctx.lengthened(made, dim, rows, 2 * rows)
    start = ctx.binary("subtract", rows, first)
    return ctx.stretch(longer, dim, start, rows)


def ragged_dot_flops(op: OpInfo) -> float:
    """2 m n k; of a shard of groups as many rows as there are groups in it."""
    group, groups = _Numbers.of(op).group, max(op.operand_shapes[_SIZES][-1], 1)
    share = 1.0
    if group is not None:
        share = (op.operand_shapes[1][group[1]] if group[0] == 1 else 1) / groups
    return products_flops(op, _summed(op)) * share


def _summed(op: OpInfo) -> int:
    return math.prod(op.operand_shapes[0][left] for left, _ in _Numbers.of(op).contracting)


RAGGED_DOT = OpDef(
    ragged_dot_rule,
    (Algorithm("local", expand_ragged_dot, _is_range),),
    flops=ragged_dot_flops,
    accuracy=summed(_summed),
    must_divide=True,
    is_product=True,
    padding=padding.IDENTITY,
)
