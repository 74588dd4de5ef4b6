"""What speaks of single devices: StableHLO's collectives, the border of `dtensor.manual`, the host.

It is refused in a program for one device, and stands inside manual regions (`jax.shard_map`) alone.
Collectives there send over the axes that are manual. Over those that are left to the planner, each
shard does by itself what the whole would: a dimension that pieces are put together in, or cut from,
is split within each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dtensor.dialect.mlir import ir
from dtensor.passes.ops.accuracy import Accuracy, rounded, summed
from dtensor.passes.ops.attributes import integer
from dtensor.passes.ops.combiners import combiner
from dtensor.passes.ops.opdef import BY_DEVICE, BY_RUN, UNKNOWN, OpDef, unknown_flops
from dtensor.passes.ops.reduction import Reduction, reductions_of
from dtensor.passes.ops.rule import DimMap, Factor, OpInfo, OpRule, RuleBuilder


def border_rule(whole: Sequence[int], shard: Sequence[int], goes_in: bool) -> OpRule:
    """What is free splits a shard and the value alike: each dimension behind what cuts shards.

    The value `goes_in` if it is an operand; otherwise it is a result.
    """
    inside = tuple([DimMap(d, 1, size) for d, size in enumerate(shard)])
    outside = tuple(
        [
            DimMap(d, 1, size, all_ // size if size else 1)
            for d, (all_, size) in enumerate(zip(whole, shard, strict=True))
        ]
    )
    operands, results = ((outside,), (inside,)) if goes_in else ((inside,), (outside,))
    return OpRule(tuple([Factor(size) for size in shard]), operands, results)


def collective_rule(op: OpInfo) -> OpRule:
    """Each result has its operand's dimensions, some longer or shorter by whole pieces.

    Parts of any reduction pass where elements only move, and parts of a sum where they are summed.
    """
    pieces = _pieces(op)
    builder = RuleBuilder(op)
    for k, (before, after) in enumerate(zip(op.operand_shapes, op.result_shapes, strict=True)):
        for d, (size, made) in enumerate(zip(before, after, strict=True)):
            piece = min(size, made) // pieces.get(d, 1)
            if not piece:
                builder.whole(k, d, "has no elements")
                continue
            factor = builder.factor(piece)
            builder.carry(k, d, factor, outer=size // piece)
            builder.carry(~k, d, factor, outer=made // piece)
    builder.passes_each(_passing(op), [True] * len(op.operand_shapes))
    return builder.build()


def _pieces(op: OpInfo) -> dict[int, int]:
    """By dimension, of how many pieces it is on both sides."""
    if not op.has("split_dimension"):
        return {}
    split, concat = (integer(op.attribute(f"{key}_dimension")) for key in ("split", "concat"))
    return {split: integer(op.attribute("split_count"))} if split == concat else {}


def _passing(op: OpInfo) -> tuple[Reduction, ...]:
    if not len(op.operation.regions):
        return tuple(reductions_of(op.result_elements[0]))
    own = combiner(op.operation.regions[0])
    return () if own is None else (own,)


def _accuracy(op: OpInfo) -> Accuracy:
    """Exact where elements only move; where they are added, as exact as a sum."""
    if not len(op.operation.regions):
        return Accuracy(0.0)
    return _summed(op) if Reduction.SUM in _passing(op) else rounded(op)


def _devices(op: OpInfo) -> int:
    """How many devices add up."""
    groups = ir.DenseIntElementsAttr(op.attribute("replica_groups"))
    return int(ir.RankedTensorType(groups.type).shape[1])


_summed = summed(_devices, rounds_each=True)
_REFUSED = (
    "is written for several devices already; write the program for one device, or this part of it "
    "in a jax.shard_map"
)
COLLECTIVE = OpDef(collective_rule, flops=unknown_flops, refused=_REFUSED, accuracy=_accuracy)
OWN_NUMBER = replace(UNKNOWN, refused=_REFUSED, varies=BY_DEVICE)
HOST = replace(
    UNKNOWN,
    refused="talks to the host or to other programs and cannot be expanded",
    varies=BY_RUN,
)
