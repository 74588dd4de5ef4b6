"""Values that get lost easily: NaN, infinities, zeros of both signs, the ends of integers."""

from __future__ import annotations

from collections.abc import Callable
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


def _compare(fn: Callable[[Any], Any], array: Any, every: int = 1) -> None:
    """What `fn` makes of an array on 8 devices, from every layout, equals what one makes."""
    want = np.asarray(jax.jit(fn)(array))
    for layout in all_layouts(array.shape)[::every]:
        got = dtensor.jit(fn, in_layouts=layout, mesh=mesh())(array)
        assert got.dtype == array.dtype or got.dtype == np.int32
        found = np.asarray(got.to_jax())
        if want.dtype.kind not in "iu":  # NumPy knows NaN in its own types only
            found, want = found.astype(np.float64), want.astype(np.float64)
        np.testing.assert_array_equal(found, want, layout.short())


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


@pytest.mark.parametrize("pick", PICKS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float8_e5m2"])
def test_a_reduction_of_floats_keeps_nan(dtype: str, pick: str) -> None:
    array = np.random.default_rng(0).integers(-3, 4, SHAPE).astype(jnp.dtype(dtype))
    array[3, 5], array[2, 7] = np.nan, -np.nan
    array[1, 2], array[6, 9] = -np.inf, np.inf
    array[:, 0], array[4:, 0] = -0.0, 0.0
    _compare(PICKS[pick], array, every=3)


COMBINERS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any], int]]] = {
    "sum": (lax.add, lambda _: 0),
    "prod": (lax.mul, lambda _: 1),
    "max": (lax.max, lambda info: int(info.min)),
    "min": (lax.min, lambda info: int(info.max)),
    "and": (lax.bitwise_and, lambda info: -1 if info.min < 0 else int(info.max)),
    "or": (lax.bitwise_or, lambda _: 0),
}


@pytest.mark.parametrize("kind", COMBINERS)
@pytest.mark.parametrize("dtype", ["uint64", "int64", "uint8", "int16"])
def test_a_reduction_of_integers_knows_their_ends(dtype: str, kind: str) -> None:
    combine, identity = COMBINERS[kind]
    info = np.iinfo(dtype)
    array = np.random.default_rng(0).integers(info.min, info.max, SHAPE, dtype, endpoint=True)
    array[1, 2], array[5, 3] = info.min, info.max
    start = np.asarray([identity(info)], dtype)[0]
    with jax.enable_x64(True):
        _compare(lambda a: lax.reduce(a, jnp.asarray(start), combine, (0,)), array, every=3)
        _compare(lambda a: lax.reduce(a, a[1, 3], combine, (0, 1)), array, every=3)


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


@pytest.mark.parametrize("scale", SCALED)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex64"])
def test_parts_of_a_sum_are_not_scaled_by_what_may_be_infinite(dtype: str, scale: str) -> None:
    # Of three rows, which lie on several devices, one has zeros where the others do not.
    array = np.zeros(SHAPE, np.float32)
    array[1, :8], array[4, 4:], array[6, 6:8] = 1, 2, -1
    scales = np.array([0, np.inf, -np.inf, 1, 2, np.nan, -0.0, 0.5] * 2)
    fn = SCALED[scale]
    typed = array.astype(jnp.dtype(dtype))
    by = scales.astype(jnp.dtype(dtype))
    want = np.asarray(jax.jit(fn)(typed, by))
    for layout in all_layouts(SHAPE)[::3]:
        given = (layout, dtensor.Layout.replicated(mesh(), rank=1))
        got = np.asarray(dtensor.jit(fn, in_layouts=given, mesh=mesh())(typed, by).to_jax())
        assert got.dtype == want.dtype
        wide = np.complex64 if dtype == "complex64" else np.float64
        np.testing.assert_array_equal(got.astype(wide), want.astype(wide), layout.short())
