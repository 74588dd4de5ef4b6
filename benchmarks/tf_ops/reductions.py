"""Reductions, scans along a dimension and orderings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tf_ops.op import Call, Op


def _axes(call: Call) -> tuple[int, ...] | None:
    axis = call.get("axis", "axes", "reduction_indices")
    if axis is None:
        return None
    return tuple(axis) if isinstance(axis, list | tuple) else (axis,)


def _reduction(reduce: Callable[..., Any], low: float = -2.0, high: float = 2.0) -> Op:
    def fn(call: Call, x: Any, *static_axes: Any) -> Any:
        kept = {"dtype": x.dtype} if reduce in (jnp.sum, jnp.prod) else {}
        keepdims = bool(call.get("keep_dims", "keepdims", default=False))
        return reduce(x, axis=_axes(call), keepdims=keepdims, **kept)

    return Op(fn, low=low, high=high)


def channel(call: Call, rank: int) -> int:
    """The dimension of the channels in the case's data format: last, or second."""
    data_format = str(call.get("data_format", default="NHWC"))
    return rank - 1 if data_format.endswith("C") else 1


def _bias_add(call: Call, x: Any, bias: Any) -> Any:
    shape = [1] * x.ndim
    shape[channel(call, x.ndim)] = bias.shape[0]
    return x + bias.reshape(shape)


def _bias_add_grad(call: Call, x: Any) -> Any:
    kept = channel(call, x.ndim)
    return jnp.sum(x, axis=tuple(dim for dim in range(x.ndim) if dim != kept))


def _cumulative(cumulate: Callable[..., Any], start: int) -> Callable[..., Any]:
    def fn(call: Call, x: Any, *static_axis: Any) -> Any:
        axis, reverse = call.get("axis", default=0) % x.ndim, bool(call.get("reverse"))
        result = cumulate(x, axis=axis, reverse=reverse)
        if not call.get("exclusive"):
            return result
        size = x.shape[axis]
        edge = jnp.full_like(jax.lax.slice_in_dim(x, 0, 1, axis=axis), start)
        kept = jax.lax.slice_in_dim(result, int(reverse), size - 1 + int(reverse), axis=axis)
        return jnp.concatenate([kept, edge] if reverse else [edge, kept], axis)

    return fn


def _index_of(find: Callable[..., Any]) -> Callable[..., Any]:
    def fn(call: Call, x: Any, *static_axis: Any) -> Any:
        axis = call.get("axis", "dimension", default=0)
        return find(x, axis=axis).astype(call.get("output_type", default="int64"))

    return fn


def _top_k(call: Call, x: Any, *static_k: Any) -> Any:
    values, indices = jax.lax.top_k(x, call.get("k", default=1))
    return values, indices.astype("int32")


def _in_top_k(call: Call, targets: Any, predictions: Any, *static_k: Any) -> Any:
    """Whether each target's prediction is among the k largest of its row; ties are in."""
    predicted = jnp.take_along_axis(predictions, targets[:, None], axis=1)
    larger = jnp.sum((predictions > predicted).astype("int32"), axis=1)
    return larger < call.get("k", default=1)


def targets_in_range(call: Call, operands: Any) -> list[np.ndarray[Any, Any]]:
    """Class indices that the scores, the second operand, have."""
    targets, scores = operands[:2]
    return [targets % scores.shape[-1], *operands[1:]]


def _log_sum_exp(x: Any, axis: Any, keepdims: bool) -> Any:
    return jax.scipy.special.logsumexp(x, axis=axis, keepdims=keepdims)


OPS: dict[str, Op] = {
    "All": _reduction(jnp.all),
    "Any": _reduction(jnp.any),
    "ArgMax": Op(_index_of(jnp.argmax)),
    "ArgMin": Op(_index_of(jnp.argmin)),
    "BiasAdd": Op(_bias_add, arity=2),
    "BiasAddGrad": Op(_bias_add_grad),
    "BiasAddV1": Op(_bias_add, arity=2),
    "Cumprod": Op(_cumulative(jax.lax.cumprod, 1)),
    "Cumsum": Op(_cumulative(jax.lax.cumsum, 0)),
    "InTopKV2": Op(_in_top_k, arity=2, sample=targets_in_range),
    "L2Loss": Op(lambda call, x: jnp.sum(x * x) / 2),
    "Max": _reduction(jnp.max),
    "Mean": _reduction(jnp.mean),
    "Min": _reduction(jnp.min),
    "Prod": _reduction(jnp.prod, 0.5, 1.5),
    "ReduceLogSumExp": _reduction(_log_sum_exp),
    "Sort": Op(lambda call, x: jnp.sort(x, axis=call.get("axis", default=-1))),
    "Sum": _reduction(jnp.sum),
    "TopKV2": Op(_top_k),
}
