"""Custom calls that XLA itself knows by name: what JAX writes for what StableHLO has no op for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.ops.attributes import backend_config, integer
from dtensor.passes.ops.contraction import products_flops
from dtensor.passes.ops.fused_attention import (
    FUSED_ATTENTION,
    expand_fused_attention,
    fused_attention_flops,
    fused_attention_rule,
)
from dtensor.passes.ops.linalg import MATRIX, leading
from dtensor.passes.ops.nullary import free_dims
from dtensor.passes.ops.opdef import Placed, always, comparisons
from dtensor.passes.ops.padding import Fill, passing
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.ops.rule import OpInfo, OpRule, RuleBuilder
from dtensor.passes.ops.sparse import (
    CSR_PRODUCT,
    csr_product_applies,
    csr_product_fill,
    csr_product_flops,
    csr_product_rule,
    expand_csr_product,
)
from dtensor.passes.ops.top_k import whole_top_k_rule


def approx_top_k_rule(op: OpInfo) -> OpRule | None:
    """`ij,ij,,->ik,ik`: the dimension that is searched is whole; the scalars fill it up.

    Half of the operands are arrays, of one shape, the other half a scalar for each.
    """
    config = backend_config(op.operation)
    if "reduction_dim" not in config:
        return None
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
    return comparisons(op, integer(backend_config(op.operation)["reduction_dim"]))


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


def buffer_rule(op: OpInfo) -> OpRule:
    """`->ij`: room for an array, which holds anything."""
    return free_dims(op).build()


def scaled_dot_rule(op: OpInfo) -> OpRule | None:
    """`bmk,bnk,bmk',bnk'->bmn`, where k' walks along blocks of k that have a scale each.

    A shard's product is a part of the sum, if it has whole blocks.
    """
    shapes = op.operand_shapes
    if [len(shape) for shape in shapes] != [3] * 4 or shapes[0][2] % max(shapes[2][2], 1):
        return None
    builder = RuleBuilder(op)
    builder.share(*builder.everywhere(0))
    builder.share((0, 1), (2, 1), (~0, 1))
    builder.share((1, 1), (3, 1), (~0, 2))
    summed = Reduction.SUM.on(op.result_elements[0])
    contracted = builder.factor(shapes[0][2], summed)
    for k in range(4):
        builder.carry(k, 2, contracted)
    return builder.build()


def scaled_dot_flops(op: OpInfo) -> float:
    """2 m n k."""
    return products_flops(op, op.operand_shapes[0][-1])


@dataclass(frozen=True)
class NamedCall:
    """A custom call.

    Attributes:
        rule: its rule, which may say None about some.
        flops: its floating-point operations.
        expand: adapts what the call says of whole dimensions; None where it says nothing.
        applies: whether it is right on shards in these layouts.
        fill: what operands must hold beyond the end of a dimension, as in `padding.Padding`.
    """

    rule: Callable[[OpInfo], OpRule | None]
    flops: Callable[[OpInfo], float]
    expand: Callable[[LocalOp], None] | None = None
    applies: Callable[[Placed], bool] = always
    fill: Callable[[OpRule, int], Fill | None] = passing


_MATRICES = NamedCall(matrices_rule, matrices_flops)
_IN_PLACE = NamedCall(in_place_rule, lambda op: 0.0)
_ATTENTION = NamedCall(fused_attention_rule, fused_attention_flops, expand_fused_attention)

# Those that take any number of matrices, along first dimensions.
MATRIX_CALLS = ("Eigh", "LuDecomposition", "ProductOfElementaryHouseholderReflectors", "Qr")

# By the name of the target. What is called is the same for a shard as for the whole.
NAMED_CALLS: Mapping[str, NamedCall] = {
    "AllocateBuffer": NamedCall(buffer_rule, lambda op: 0.0),
    "ApproxTopK": NamedCall(approx_top_k_rule, approx_top_k_flops),
    CSR_PRODUCT: NamedCall(
        csr_product_rule,
        csr_product_flops,
        expand_csr_product,
        csr_product_applies,
        csr_product_fill,
    ),
    "LayoutConstraint": _IN_PLACE,
    "__op$block_scaled_dot": NamedCall(scaled_dot_rule, scaled_dot_flops),
    "annotate_device_placement": _IN_PLACE,
    **dict.fromkeys(FUSED_ATTENTION, _ATTENTION),
    **dict.fromkeys(MATRIX_CALLS, _MATRICES),
    "mhlo.topk": NamedCall(whole_top_k_rule, lambda op: comparisons(op, -1)),
}
