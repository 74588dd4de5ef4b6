"""The batch_norm ops: one mean and one variance per feature."""

from __future__ import annotations

import math

from dtensor.passes.ops.accuracy import series
from dtensor.passes.ops.attributes import integer
from dtensor.passes.ops.opdef import OpDef
from dtensor.passes.ops.rule import OpInfo, OpRule, RuleBuilder


def batch_norm_inference_rule(op: OpInfo) -> OpRule:
    """`bfi,f,f,f,f->bfi`: element-wise, once the statistics are given."""
    return _features(op, (0,), are_others_split=True)


def batch_norm_training_rule(op: OpInfo) -> OpRule:
    """`bfi,f,f->bfi,f,f`; all but the features is whole: its statistics are taken."""
    return _features(op, (0,), are_others_split=False)


def batch_norm_grad_rule(op: OpInfo) -> OpRule:
    """`bfi,f,f,f,bfi->bfi,f,f`; all but the features is whole, as in training."""
    return _features(op, (0, 4), are_others_split=False)


def _features(op: OpInfo, wide: tuple[int, ...], are_others_split: bool) -> OpRule:
    """Operands `wide` and result 0 have all dimensions, the other tensors the features alone."""
    feature = integer(op.attribute("feature_index"))
    shape = op.operand_shapes[0]
    builder = RuleBuilder(op)
    for d, size in enumerate(shape):
        if d != feature and not are_others_split:
            for k in wide:
                builder.whole(k, d, "has its mean and variance taken by one op")
            continue
        factor = builder.factor(size)
        for k in wide:
            builder.operand(k, d, factor)
        builder.result(0, d, factor)
        if d == feature:
            for k in range(len(op.operand_shapes)):
                if k not in wide:
                    builder.operand(k, 0, factor)
            for k in range(1, len(op.result_shapes)):
                builder.result(k, 0, factor)
    return builder.build()


def batch_norm_flops(op: OpInfo) -> float:
    """Four per element."""
    return 4.0 * math.prod(op.operand_shapes[0])


BATCH_NORM_INFERENCE = OpDef(batch_norm_inference_rule, flops=batch_norm_flops, accuracy=series)
BATCH_NORM_TRAINING = OpDef(batch_norm_training_rule, flops=batch_norm_flops, accuracy=series)
BATCH_NORM_GRAD = OpDef(batch_norm_grad_rule, flops=batch_norm_flops, accuracy=series)
