"""Random bits: every device must see the same, or its own piece of the same."""

from __future__ import annotations

import math

from dtensor.passes.rules.rule import OpInfo, OpRule, RuleBuilder


def rng_bit_generator_rule(op: OpInfo) -> OpRule:
    """`s->s,ij`: the bits can be split, but each depends on its global place.

    So every shard makes them all, from the same state, and keeps its own.
    """
    builder = RuleBuilder(op)
    for d in range(len(op.operand_shapes[0])):
        builder.whole(0, d, "is the state of the generator")
    for d, size in enumerate(op.result_shapes[1]):
        builder.result(1, d, builder.factor(size))
    return builder.build(flops=float(math.prod(op.result_shapes[1])))


def rng_rule(op: OpInfo) -> OpRule:
    """Nothing can be split: each device has a hidden state of its own."""
    builder = RuleBuilder(op)
    for d in range(len(op.result_shapes[0])):
        builder.whole(~0, d, "is drawn from a state that each device has for itself")
    return builder.build()
