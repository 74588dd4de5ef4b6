"""Slices whose place is computed: what they hold whole can be split, what they cut cannot."""

from __future__ import annotations

from dtensor.passes.rules.elements import reductions_of
from dtensor.passes.rules.rule import OpInfo, OpRule, RuleBuilder


def dynamic_slice_rule(op: OpInfo) -> OpRule:
    """`ij,,->ij`; a dimension of which only some elements are taken is whole.

    The start indices are scalars and complete; parts of the operand are cut each by itself.
    """
    builder = RuleBuilder(op)
    for d, size in enumerate(op.operand_shapes[0]):
        kept = op.result_shapes[0][d]
        if kept != size:
            builder.whole(0, d, f"has {kept} of {size} elements taken, from a computed place on")
            continue
        factor = builder.factor(size)
        builder.operand(0, d, factor)
        builder.result(0, d, factor)
    parts = [k == 0 for k in range(len(op.operand_shapes))]
    builder.passes_each(reductions_of(op.result_elements[0]), parts)
    return builder.build(flops=0.0)


def dynamic_update_slice_rule(op: OpInfo) -> OpRule:
    """`ij,ij,,->ij`; a dimension of which only some elements are updated is whole.

    Parts pass if both the operand and the update are parts, for elements are only moved.
    """
    builder = RuleBuilder(op)
    for d, size in enumerate(op.operand_shapes[0]):
        new = op.operand_shapes[1][d]
        if new != size:
            reason = f"has {new} of {size} elements updated, from a computed place on"
            builder.whole(0, d, reason)
            builder.whole(1, d, reason)
            continue
        factor = builder.factor(size)
        builder.operand(0, d, factor)
        builder.operand(1, d, factor)
        builder.result(0, d, factor)
    parts = [k < 2 for k in range(len(op.operand_shapes))]
    builder.passes_each(reductions_of(op.result_elements[0]), parts)
    return builder.build(flops=0.0)
