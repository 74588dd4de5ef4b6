"""dtensor.gather_dot: rows that indices pick from a table, multiplied and summed where they are.

Shards of the table that do not own a row would add zero. But zero times infinity is NaN, so a sum
of gathered parts cannot be multiplied by just anything. Here each shard knows which rows it owns:
it multiplies those, and adds zero to the products of the others. A cache of keys in pages is read
so, a bag of weighted embeddings, a matrix per expert.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dtensor.dialect.dim import Dim
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import Value, ir
from dtensor.dialect.names import DOT_NUMBERS, GATHER_NUMBERS, PRECISION, SLICE_SIZES
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.ops import padding
from dtensor.passes.ops.accuracy import summed
from dtensor.passes.ops.attributes import dot_pairs, dot_sides
from dtensor.passes.ops.contraction import products_flops
from dtensor.passes.ops.gather import Gathered, gathered_here, lengthen_gather
from dtensor.passes.ops.indexing import IndexedDims, IndexNumbers, indexed_dims, say_whole
from dtensor.passes.ops.opdef import OpDef, local
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.ops.rule import FactorKind, OpInfo, OpRule, RuleBuilder

_INDICES, _OTHER = 1, 2  # operands


class _Product:
    """How the dimensions of the operands hang together: `gathered` is what the gather gives.

    Attributes:
        dims: the dimensions of the gather.
        carriers: per dimension of `gathered`, the operands and dimensions that it comes from; none
            of one of a single element.
        batching: pairs of dimensions of `gathered` and of operand 2, which the result has.
        summed: pairs of dimensions that it does not have.
        free: dimensions of `gathered` that operand 2 does not have.
        own: dimensions of operand 2 that `gathered` does not have.
    """

    def __init__(self, operation: ir.Operation, shapes: Sequence[Sequence[int]]) -> None:
        numbers = IndexNumbers.of(operation)
        self.dims: IndexedDims = indexed_dims(operation, shapes)
        carriers = {r: [(0, d), (_INDICES, i)] for d, i, r in self.dims.batching}
        carriers |= {r: [(_INDICES, i)] for i, r in self.dims.spread}
        carriers |= {r: [(0, d)] for d, r in self.dims.full}
        rank = len(self.dims.batching) + len(self.dims.spread) + len(numbers.windows)
        self.carriers = [carriers.get(r, []) for r in range(rank)]
        self.batching, self.summed = dot_pairs(operation)
        taken = [{pair[k] for pair in (*self.batching, *self.summed)} for k in (0, 1)]
        self.free = [r for r in range(rank) if r not in taken[0]]
        self.own = [d for d in range(len(shapes[_OTHER])) if d not in taken[1]]

    def gathered(self, op: LocalOp) -> tuple[list[Dim], tuple[int, ...]]:
        """How `gathered` is cut, and its global shape."""
        first = [carriers[0] if carriers else None for carriers in self.carriers]
        return (
            [Dim() if at is None else op.operand_layouts[at[0]].dims[at[1]] for at in first],
            tuple([1 if at is None else op.operand_shapes[at[0]][at[1]] for at in first]),
        )

    @property
    def result(self) -> list[int]:
        """The dimensions of `gathered` that the result has, in its order; it begins with them."""
        return [*(r for r, _ in self.batching), *self.free]


def gather_dot_rule(op: OpInfo) -> OpRule:
    """`vd,i,id->i` reduce `v`, `d`: a row per index `i`, and its product with one of operand 2.

    A shard that does not own the row adds zero.
    """
    product, builder = _Product(op.operation, op.operand_shapes), RuleBuilder(op)
    beside = dict(product.batching)
    for k, r in enumerate(product.result):
        other = [(_OTHER, beside[r])] if r in beside else []
        if product.carriers[r]:
            builder.share(*product.carriers[r], *other, (~0, k))
    for k, d in enumerate(product.own):
        builder.share((_OTHER, d), (~0, len(product.result) + k))
    for r, d in product.summed:
        if product.carriers[r]:
            builder.share(*product.carriers[r], (_OTHER, d), reduction=Reduction.SUM)
    for d, _ in product.dims.picked:
        builder.share((0, d), reduction=Reduction.SUM)
    say_whole(builder, product.dims, _INDICES, len(op.operand_shapes[_INDICES]), [~0])
    return builder.build()


def expand_gather_dot(op: LocalOp) -> Sequence[Value]:
    """The gather and the product, with zero for what others own."""
    ctx, product = op.ctx, _Product(op.operation, op.operand_shapes)
    dims, shape = product.gathered(op)
    layout = Layout.of(dims, ctx.mesh)
    inner = ctx.create(
        "stablehlo.gather",
        op.operands[:2],
        [ctx.tensor_type(layout.local_shape(shape), ctx.element_of(op.operands[0]))],
        {name: op.operation.attributes[name] for name in (GATHER_NUMBERS, SLICE_SIZES)},
    )
    gather = LocalOp(
        inner,
        inner.name,
        op.operand_layouts[:2],
        (layout,),
        op.operand_shapes[:2],
        (shape,),
        ctx,
    )
    found, other = gathered_here(gather), op.operands[_OTHER]
    if found is None:
        return [_product(op, product, inner.results[0], other)]
    inner.erase()
    value, summed = found.value, dict(product.summed)
    if not summed.keys() & set(found.places):
        made = _product(op, product, value, other)
        return [_kept(op, found, made, {r: k for k, r in enumerate(product.result)})]
    value = ctx.select(found.is_here, value, 0, found.places)
    other = _kept(op, found, other, dict(product.batching) | summed)
    return [_product(op, product, value, other)]


def _kept(op: LocalOp, found: Gathered, value: Value, place: dict[int, int]) -> Value:
    """A value that has the dimensions of the indices at other places, zero for what others own."""
    ctx, places = op.ctx, [place[r] for r in found.places]
    mask = ctx.spread(found.is_here, ctx.shape_of(value), places)
    return ctx.select(mask, value, ctx.identity("sum", value.type))


def _product(op: LocalOp, product: _Product, value: Value, other: Value) -> Value:
    """The product of local values: element by element where that is all it is."""
    ctx = op.ctx
    value = ctx.convert(value, ctx.element_of(other))
    order = [d for _, d in product.batching]
    is_plain = product.result == order == list(range(len(ctx.shape_of(other))))
    if is_plain and op.result_element() == ctx.element_of(other):
        return ctx.binary("multiply", value, other)
    names = [name for name in (DOT_NUMBERS, PRECISION) if name in op.operation.attributes]
    return ctx.value(
        "stablehlo.dot_general",
        [value, other],
        op.local_result_type(),
        {name: op.operation.attributes[name] for name in names},
    )


def _flops(op: OpInfo) -> float:
    """2 per element of the result, of all that is summed for it."""
    return products_flops(op, _summed(op))


def _summed(op: OpInfo) -> int:
    return math.prod(op.operand_shapes[_OTHER][d] for d in dot_sides(op.operation)[1][1])


def _holds(rule: OpRule, factor: int) -> padding.Fill | None:
    """A row beyond the end is not read; what is summed is zero beyond it, if no index is."""
    if rule.factors[factor].kind is not FactorKind.REDUCTION:
        return padding.passing(rule, factor)
    slots = {slot for slot, _ in rule.dims_of_factor[factor]}
    if _OTHER not in slots:
        return padding.Fill.ANY
    return None if _INDICES in slots else padding.Fill.IDENTITY


GATHER_DOT = OpDef(
    gather_dot_rule,
    (local(expand_gather_dot),),
    flops=_flops,
    accuracy=summed(_summed),
    must_divide=True,
    is_product=True,
    padding=padding.Padding(_holds, lengthen_gather),
)
