"""Custom calls that XLA itself knows by name: what JAX writes for what StableHLO has no op for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dtensor.dialect.mlir import ir
from dtensor.passes.ops.attributes import integer
from dtensor.passes.ops.linalg import MATRIX, leading
from dtensor.passes.ops.opdef import comparisons
from dtensor.passes.ops.rule import OpInfo, OpRule, RuleBuilder
from dtensor.passes.ops.sorting import whole_top_k_rule

_CONFIG = "mhlo.backend_config"


def approx_top_k_rule(op: OpInfo) -> OpRule | None:
    """`ij,ij,,->ik,ik`: the dimension that is searched is whole; the scalars fill it up.

    Half of the operands are arrays, of one shape, the other half a scalar for each.
    """
    if not op.has(_CONFIG) or "reduction_dim" not in ir.DictAttr(op.attribute(_CONFIG)):
        return None
    config = ir.DictAttr(op.attribute(_CONFIG))
    searched = integer(config["reduction_dim"])
    arrays = range(len(op.operand_shapes) // 2)
    shape = op.operand_shapes[0]
    if len(op.result_shapes) != len(arrays) or any(op.operand_shapes[k] != shape for k in arrays):
        return None
    builder = RuleBuilder(op)
    for d in range(len(shape)):
        if d == searched:
            for k in arrays:
                builder.whole(k, d, "has its largest or smallest elements taken")
            continue
        builder.share(*((k, d) for k in arrays), *((~k, d) for k in arrays))
    return builder.build()


def approx_top_k_flops(op: OpInfo) -> float:
    """As of a sort."""
    return comparisons(op, integer(ir.DictAttr(op.attribute(_CONFIG))["reduction_dim"]))


def matrices_rule(op: OpInfo) -> OpRule | None:
    """`bij->bij,bk`: a factorisation of each matrix of a batch by itself."""
    shape = op.operand_shapes[0]
    if len(shape) < 2:
        return None
    return leading(op, len(shape) - 2, MATRIX).build()


def matrices_flops(op: OpInfo) -> float:
    """n^3 of each matrix of n columns."""
    shape = op.operand_shapes[0]
    return float(math.prod(shape)) * shape[-1]


def in_place_rule(op: OpInfo) -> OpRule:
    """`ij->ij`: says where in memory an array lies, and in which order; the values are the same."""
    return leading(op, len(op.operand_shapes[0]), "").build()


@dataclass(frozen=True)
class NamedCall:
    """A custom call: its rule, which may say None about some, and its floating-point operations."""

    rule: Callable[[OpInfo], OpRule | None]
    flops: Callable[[OpInfo], float]


_MATRICES = NamedCall(matrices_rule, matrices_flops)
_IN_PLACE = NamedCall(in_place_rule, lambda op: 0.0)

# By the name of the target. What is called is the same for a shard as for the whole.
NAMED_CALLS: Mapping[str, NamedCall] = {
    "ApproxTopK": NamedCall(approx_top_k_rule, approx_top_k_flops),
    "Eigh": _MATRICES,
    "LayoutConstraint": _IN_PLACE,
    "LuDecomposition": _MATRICES,
    "ProductOfElementaryHouseholderReflectors": _MATRICES,
    "Qr": _MATRICES,
    "annotate_device_placement": _IN_PLACE,
    "mhlo.topk": NamedCall(whole_top_k_rule, lambda op: comparisons(op, -1)),
}
