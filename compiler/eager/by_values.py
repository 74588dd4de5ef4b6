"""Functions of jax.numpy that look at the values of an argument, for values that are on the host.

jax.numpy makes an array of the program of them, whose values are not known while it is traced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def compress(condition: Any, a: Any, axis: int | None = None, **rest: Any) -> Any:
    """As jax.numpy.compress."""
    if rest.get("size") is not None or not _is_on_host(condition):
        return jnp.compress(condition, a, axis, **rest)
    mask = np.asarray(condition, bool)
    array = jnp.ravel(a) if axis is None else a
    axis = 0 if axis is None else axis
    if mask.ndim != 1:
        raise ValueError(f"condition has {mask.ndim} dimensions; give one, as long as the axis")
    (positions,) = np.nonzero(mask)
    if np.any(positions >= array.shape[axis]):
        raise ValueError(
            f"condition is true at {positions[-1]}, and the axis has {array.shape[axis]} elements; "
            "give a condition as long as the axis"
        )
    return jnp.take(array, positions, axis=axis)


def extract(condition: Any, arr: Any, **rest: Any) -> Any:
    """As jax.numpy.extract."""
    flat = np.ravel(np.asarray(condition)) if _is_on_host(condition) else jnp.ravel(condition)
    return compress(flat, jnp.ravel(arr), **rest)


def choose(a: Any, choices: Sequence[Any], out: None = None, mode: str = "raise") -> Any:
    """As jax.numpy.choose."""
    if mode == "raise" and _is_on_host(a):
        index = np.asarray(a)
        if index.size and not 0 <= index.min() <= index.max() < len(choices):
            raise ValueError(
                f"choose got {index.min()} to {index.max()} for {len(choices)} choices; give an "
                "index of each, or mode='wrap' or mode='clip'"
            )
        mode = "clip"
    return jnp.choose(a, choices, out, mode)


def _is_on_host(value: Any) -> bool:
    return not any(isinstance(leaf, jax.Array) for leaf in jax.tree_util.tree_leaves(value))


_OF_JAX: dict[Callable[..., Any], Callable[..., Any]] = {
    jnp.choose: choose,
    jnp.compress: compress,
    jnp.extract: extract,
}


def looking_at_values(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of jax.numpy, or what stands in place of it here."""
    return _OF_JAX.get(fn, fn)
