"""Values that get lost easily: NaN, infinities, zeros of both signs, the ends of integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dtensor
from tests.py.line.layouts import all_layouts, mesh

SHAPE = (8, 16)
SEGMENTS = np.array([0, 1, 2, 1, 0, 3, 2, 1])


def _compare(
    functions: Mapping[str, Callable[..., Any]], array: Any, *more: Any, every: int = 3
) -> None:
    """What each function makes of an array on 8 devices equals what it makes on one.

    The functions are in one program, which is planned and compiled once for each layout of the
    array. Each has an array of its own there, so that no value is shared among them.

    Args:
        functions: each takes the array, and what else there is.
        array: the array, to lie in every layout.
        more: further arguments, whole on every device.
        every: of how many layouts one is taken.
    """

    def fn(arrays: Mapping[str, Any], *more: Any) -> Any:
        return {name: work(arrays[name], *more) for name, work in functions.items()}

    whole = [dtensor.Layout.replicated(mesh(), rank=other.ndim) for other in more]
    given = dict.fromkeys(functions, array)
    want = jax.jit(fn)(given, *more)
    for layout in all_layouts(array.shape)[::every]:
        layouts = (dict.fromkeys(functions, layout), *whole)
        found = dtensor.jit(fn, in_layouts=layouts, mesh=mesh())(given, *more)
        for name, tensor in found.items():
            one, several = _wide(want[name]), _wide(tensor.to_jax())
            assert tensor.dtype == want[name].dtype
            np.testing.assert_array_equal(several, one, f"{name} from {layout.short()}")


def _wide(array: Any) -> np.ndarray[Any, Any]:
    """The values in a type that NumPy knows, which says what NaN is."""
    values = np.asarray(array)
    if values.dtype.kind in "iuc":
        return values
    return values.astype(np.float64)


PICKS: dict[str, Callable[[Any], Any]] = {
    "max": lambda a: a.max(0),
    "min": lambda a: a.min(1),
    "both": lambda a: a.max(),
    "ptp": lambda a: jnp.ptp(a, axis=0),
    "argmax": lambda a: jnp.argmax(a, 0),
    "segment_min": lambda a: jax.ops.segment_min(a, SEGMENTS, 4),
    "segment_max": lambda a: jax.ops.segment_max(a, SEGMENTS, 4),
    "init": lambda a: lax.reduce(a, a[0, 0], lax.max, (0,)),
    "least_of_negated": lambda a: -(a.max(0)),
}


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float8_e5m2"])
def test_a_reduction_of_floats_keeps_nan(dtype: str) -> None:
    array = np.random.default_rng(0).integers(-3, 4, SHAPE).astype(jnp.dtype(dtype))
    array[3, 5], array[2, 7] = np.nan, -np.nan
    array[1, 2], array[6, 9] = -np.inf, np.inf
    array[:, 0], array[4:, 0] = -0.0, 0.0
    _compare(PICKS, array)


COMBINERS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any], int]]] = {
    "sum": (lax.add, lambda _: 0),
    "prod": (lax.mul, lambda _: 1),
    "max": (lax.max, lambda info: int(info.min)),
    "min": (lax.min, lambda info: int(info.max)),
    "and": (lax.bitwise_and, lambda info: -1 if info.min < 0 else int(info.max)),
    "or": (lax.bitwise_or, lambda _: 0),
}


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["uint64", "int64", "uint8", "int16"])
def test_a_reduction_of_integers_knows_their_ends(dtype: str) -> None:
    info = np.iinfo(dtype)
    array = np.random.default_rng(0).integers(info.min, info.max, SHAPE, dtype, endpoint=True)
    array[1, 2], array[5, 3] = info.min, info.max

    def from_identity(kind: str) -> Callable[[Any], Any]:
        combine, identity = COMBINERS[kind]
        start = np.asarray([identity(info)], dtype)[0]
        return lambda a: lax.reduce(a, jnp.asarray(start), combine, (0,))

    def from_element(kind: str) -> Callable[[Any], Any]:
        return lambda a: lax.reduce(a, a[1, 3], COMBINERS[kind][0], (0, 1))

    with jax.enable_x64(True):
        _compare({kind: from_identity(kind) for kind in COMBINERS}, array)
        _compare({kind: from_element(kind) for kind in COMBINERS}, array)


SCALED: dict[str, Callable[[Any, Any], Any]] = {
    "multiply": lambda a, s: a.sum(0) * s,
    "multiply from the left": lambda a, s: s[3] * a.sum(1),
    "divide": lambda a, s: a.sum(0) / s,
    "divide by zeros of a mask": lambda a, s: a.sum(0) / (s == 2).astype(a.dtype),
    "matmul": lambda a, s: a.sum(0)[:, None] @ s[None],
    "convolve": lambda a, s: lax.conv(a.sum(0)[None, None], s[:, None, None], (1,), "VALID"),
    "divide by a constant": lambda a, s: a.sum(0) / np.asarray([0, 1, 2, 4] * 4, a.dtype),
    "multiply by a constant": lambda a, s: a.sum(0) * np.asarray([0, 1, np.inf, 4] * 4, a.dtype),
    "mean": lambda a, s: a.mean(0) * 4,
}


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64"])
def test_parts_of_a_sum_are_not_scaled_by_what_may_be_infinite(dtype: str) -> None:
    # Of three rows, which lie on several devices, one has zeros where the others do not.
    array = np.zeros(SHAPE, np.float32)
    array[1, :8], array[4, 4:], array[6, 6:8] = 1, 2, -1
    scales = np.array([0, np.inf, -np.inf, 1, 2, np.nan, -0.0, 0.5] * 2)
    _compare(SCALED, array.astype(jnp.dtype(dtype)), scales.astype(jnp.dtype(dtype)))
