"""Values that come from nowhere: any layout is free."""

from __future__ import annotations

from dtensor.passes.rules.constants import identity_of
from dtensor.passes.rules.rule import OpInfo, OpRule, RuleBuilder


def constant_rule(op: OpInfo) -> OpRule:
    """`->ij`. A constant that is the identity of a reduction is a part of it as it stands."""
    builder = _free_dims(op)
    for reduction in identity_of(op.operation, op.result_elements[0]):
        builder.passes([], [reduction])
    return builder.build(flops=0.0, is_free=True)


def iota_rule(op: OpInfo) -> OpRule:
    """`->ij`: a shard of the counted dimension counts from its own offset."""
    return _free_dims(op).build(flops=0.0, is_free=True)


def _free_dims(op: OpInfo) -> RuleBuilder:
    builder = RuleBuilder(op)
    for d, size in enumerate(op.result_shapes[0]):
        builder.result(0, d, builder.factor(size))
    return builder
