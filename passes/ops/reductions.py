"""Reductions over dimensions, whose shards each make a part of the result.

The specification lets an implementation fold an init value in any number of times. XLA does: it
drops one where the local dimension has size 1 and adds one twice where it reduces in two steps. So
only identities are handed to the local op, and every device's program folds the value in once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dtensor.dialect.mlir import Value
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.ops import padding, totals
from dtensor.passes.ops.accuracy import summed
from dtensor.passes.ops.attributes import is_identity
from dtensor.passes.ops.combiners import combined, combiners
from dtensor.passes.ops.extremes import chosen, extreme, extreme_bytes, joined_extremes
from dtensor.passes.ops.opdef import Algorithm, OpDef, Placed, Traffic, placed_of
from dtensor.passes.ops.reduced_apart import reduced_apart, started_late
from dtensor.passes.ops.rule import FactorKind, OpInfo, OpRule, RuleBuilder


def reduce_rule(op: OpInfo) -> OpRule:
    """`ij,->i`: kept dimensions are shared, a shard of a reduced one makes a part of the result.

    The init value belongs to one shard only, so it is a part too. Parts of the combiner's own
    reduction pass, for the order of combining is free. With any other body the shards' totals are
    reduced in order: those of the first reduced dimension are; of others if the body commutes.
    """
    count = len(op.operand_shapes) // 2
    inits = range(count, 2 * count)
    reduction, reduced = combined(op), set(totals.reduced_dims(op))
    builder = RuleBuilder(op)
    kept = 0
    for d in range(len(op.operand_shapes[0])):
        read = [(k, d) for k in range(count)]
        if d not in reduced:
            builder.share(*read, *((~k, kept) for k in range(count)))
            kept += 1
        elif reduction is not None:
            builder.share(*read, reduction=reduction, partial_operands=inits)
        elif not (why := totals.why_whole(op, d)):
            builder.share(*read, kind=FactorKind.ORDER)
        else:
            for k in range(count):
                builder.whole(k, d, why)
    if reduction is not None:
        builder.passes_each([reduction], [True] * (2 * count))
    return builder.build()


def reduce_flops(op: OpInfo) -> float:
    """One per element that is combined."""
    return float(math.prod(op.operand_shapes[0])) * len(op.result_shapes)


def _terms(op: OpInfo) -> int:
    return math.prod(op.operand_shapes[0]) // max(1, math.prod(op.result_shapes[0]))


def expand_reduce(op: LocalOp) -> Sequence[Value] | None:
    """Reduce from the identity, then combine with this shard's part of the init value."""
    count = len(op.operands) // 2
    kinds = combiners(op.operation.regions[0])
    if kinds is None:
        return None
    inits = enumerate(zip(kinds, op.operands[count:], strict=True))
    late = {k: kind for k, (kind, init) in inits if not is_identity(init, kind)}
    return started_late(op.ctx, op.again(), late) if late else None


def _is_local(placed: Placed) -> bool:
    """Whether the shards' results are parts, or no reduced dimension is split."""
    return not totals.axes_of_reduced(placed) or combined(placed.op) is not None


def _splits_extreme(placed: Placed) -> bool:
    """Whether a dimension is split along which a body chooses the largest or smallest."""
    return bool(totals.axes_of_reduced(placed)) and chosen(placed.op) is not None


def _extreme_bytes(placed: Placed) -> tuple[Traffic, ...]:
    return extreme_bytes(placed, totals.axes_of_reduced(placed))


def expand_extreme(op: LocalOp) -> Sequence[Value]:
    """Each shard chooses; the best value of all is found, then the first place that has it."""
    name = extreme(op.operation.regions[0])
    assert name is not None, "a body that was checked"
    return joined_extremes(op, op.again().results, totals.axes_of_reduced(placed_of(op)), name)


def reduce_fill(rule: OpRule, factor: int) -> padding.Fill | None:
    """What chooses an extreme does so among init values as well; `refit_reduce` sees to others."""
    if rule.factors[factor].kind is not FactorKind.ORDER:
        return padding.reducing(rule, factor)
    chooses = extreme(rule.info.operation.regions[0]) is not None
    return padding.Fill.INIT if chooses else padding.Fill.ANY


REDUCE = OpDef(
    reduce_rule,
    (
        Algorithm("extremes", expand_extreme, _splits_extreme, _extreme_bytes),
        Algorithm("gather_totals", totals.expand_gathered, totals.has_totals, totals.gather_bytes),
        Algorithm(
            "exchange_totals", totals.expand_exchanged, totals.has_shares, totals.exchange_bytes
        ),
        Algorithm("local", expand_reduce, _is_local),
    ),
    flops=reduce_flops,
    accuracy=summed(_terms),
    padding=padding.Padding(reduce_fill, totals.refit_reduce),
    fuses=True,
    anew=reduced_apart,
)
