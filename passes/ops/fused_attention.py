"""cuDNN's attention, as `jax.nn.dot_product_attention` calls it: each batch and head by itself.

What is given begins with queries, keys and values, `btnh` or `bnth`; a gradient has the statistics
of the softmax and the gradient of the result behind them. Then come a bias, if there is one, the
result, if a gradient is asked for, and perhaps lengths. The call says sizes in a text.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Self

from dtensor.dialect.callbacks import target_of
from dtensor.dialect.mlir import ir
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.ops.rule import OpInfo, OpRule, RuleBuilder

_CONFIG, _OWN, _SIZES = "backend_config", "cudnn_fmha_backend_config", "intermediate_tensor_shape"
_BIAS = "Bias"
# With dropout each device would draw the same numbers, which are not those of one device.
FUSED_ATTENTION = tuple(
    f"__cudnn$fmha{bias}Softmax{back}" for bias in ("", "ScaleBias") for back in ("", "Backward")
)


@dataclass(frozen=True)
class _Call:
    """What a call says.

    Attributes:
        sizes: batches, heads of queries, queries and keys.
        heads: the dimension of the heads in queries, keys and values.
        is_back: whether it gives gradients.
        bias: the operand that is a bias; None if there is none.
    """

    sizes: tuple[int, int, int, int]
    heads: int
    is_back: bool
    bias: int | None

    @classmethod
    def of(cls, op: ir.Operation) -> Self | None:
        """What is known of a call; None where segments are packed, or keys lie in pages."""
        target = target_of(op)
        is_back = target.endswith("Backward")
        name = "bmm1_grad_gemm1_dot_dimension_numbers" if is_back else "bmm1_dot_dimension_numbers"
        side = "rhs_batch_dimensions" if is_back else "lhs_batch_dimensions"
        try:
            config = json.loads(ir.StringAttr(op.attributes[_CONFIG]).value)[_OWN]
            batch, heads, queries, keys = map(int, config[_SIZES]["dimensions"])
            place = int(config[name][side][1])
            if config["max_seg_per_batch"] != 1 or config["is_paged_attention"]:
                return None
        except (KeyError, ValueError, TypeError, IndexError):
            return None
        bias = (5 if is_back else 3) if _BIAS in target else None
        return cls((batch, heads, queries, keys), place, is_back, bias)


def fused_attention_rule(op: OpInfo) -> OpRule | None:
    """`btnh,bsnh,bsnh->bnth,bnt` and its gradients; sequences are whole.

    A head of keys may serve several of queries, one after the other. What one head, or one bias,
    gives to several is a sum in their gradients.
    """
    call = _Call.of(op.operation)
    if call is None or any(len(shape) != 4 for shape in op.operand_shapes[:3]):
        return None
    builder, last = RuleBuilder(op), len(op.result_shapes) - 1  # which is room to work in
    results = range(last)
    batch, heads = call.sizes[:2]
    slots = [*range(len(op.operand_shapes)), *(~k for k in results)]
    own = [slot for slot in slots if op.shape(slot)[0] == batch]
    _share(builder, op, [(slot, 0) for slot in own], batch, call)
    # Statistics, a bias and results have heads ahead of queries, lengths have none.
    ahead = [*((3,) if call.is_back else ()), *(() if call.bias is None else (call.bias,))]
    places = [(slot, call.heads) for slot in slots if slot >= 0 and slot not in ahead]
    places += [(slot, 1) for slot in (*ahead, *(~k for k in results))]
    _share(builder, op, [place for place in places if len(op.shape(place[0])) > 1], heads, call)
    return builder.build()


def _share(
    builder: RuleBuilder, op: OpInfo, places: list[tuple[int, int]], size: int, call: _Call
) -> None:
    """A factor that walks along dimensions of its size, or along blocks of it."""
    along = [(slot, d) for slot, d in places if op.shape(slot)[d] > 1]
    have = {slot for slot, _ in along}
    lacking = [k for k in range(len(op.result_shapes) - 1) if ~k not in have]
    if size == 1 or (lacking and not call.is_back):
        return
    element = op.result_elements[0]
    factor = builder.factor(size, Reduction.SUM.on(element) if lacking else None)
    for slot, d in along:
        builder.carry(slot, d, factor)


def expand_fused_attention(op: LocalOp) -> None:
    """The call says how many batches and heads a device has."""
    call = _Call.of(op.operation)
    if call is None:
        return
    text = ir.StringAttr(op.operation.attributes[_CONFIG]).value
    config: dict[str, Any] = json.loads(text)
    shape = op.ctx.shape_of(op.operands[0])
    sizes = (shape[0], shape[call.heads], *call.sizes[2:])
    config[_OWN][_SIZES]["dimensions"] = [str(size) for size in sizes]
    op.operation.attributes[_CONFIG] = ir.StringAttr.get(json.dumps(config))


def fused_attention_flops(op: OpInfo) -> float:
    """Two products of queries with keys, and five for their gradients."""
    call = _Call.of(op.operation)
    if call is None:
        return 0.0
    products = 5 if call.is_back else 2
    return 2.0 * products * math.prod(op.operand_shapes[0]) * call.sizes[3]
