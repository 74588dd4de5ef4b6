"""Sort and top_k: rows are sorted each by itself."""

from __future__ import annotations

import math

from dtensor.passes.ops.attributes import integer
from dtensor.passes.ops.opdef import OpDef
from dtensor.passes.ops.rule import OpInfo, OpRule, RuleBuilder


def sort_rule(op: OpInfo) -> OpRule:
    """`ij,ij->ij,ij`; the dimension that is sorted is whole."""
    return _rows(op, _sorted_dimension(op), "is sorted")


def top_k_rule(op: OpInfo) -> OpRule:
    """`ij->ik,ik`; the last dimension, of which the k largest are taken, is whole."""
    return _rows(op, len(op.operand_shapes[0]) - 1, "has its largest elements taken")


def _rows(op: OpInfo, dimension: int, reason: str) -> OpRule:
    builder = RuleBuilder(op)
    for d, size in enumerate(op.operand_shapes[0]):
        if d == dimension:
            for k in range(len(op.operand_shapes)):
                builder.whole(k, d, reason)
            continue
        factor = builder.factor(size)
        for k in range(len(op.operand_shapes)):
            builder.operand(k, d, factor)
        for k in range(len(op.result_shapes)):
            builder.result(k, d, factor)
    return builder.build()


def sort_flops(op: OpInfo) -> float:
    """N log2 n comparisons of each row."""
    return _comparisons(op, _sorted_dimension(op))


def top_k_flops(op: OpInfo) -> float:
    """As of a sort."""
    return _comparisons(op, -1)


def _sorted_dimension(op: OpInfo) -> int:
    rank = len(op.operand_shapes[0])
    dimension = integer(op.attribute("dimension")) if op.has("dimension") else -1
    return dimension % rank if rank else 0


def _comparisons(op: OpInfo, dimension: int) -> float:
    shape = op.operand_shapes[0]
    length = shape[dimension] if shape else 1
    return math.prod(shape) * math.log2(max(length, 2)) * len(op.operand_shapes)


SORT = OpDef(sort_rule, flops=sort_flops)
TOP_K = OpDef(top_k_rule, flops=top_k_flops)
