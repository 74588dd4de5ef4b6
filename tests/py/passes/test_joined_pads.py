"""Gradients of rolls and of slices side by side on 8 devices, against one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dtensor

LINE = dtensor.create_mesh([("x", 8)])
ROWS = dtensor.Layout(["x", None], LINE)
ROW = 16 * 4  # bytes


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    """Whole numbers, all sums of which are exact, and zeros of both signs."""
    made = np.random.default_rng(2).integers(-3, 4, shape).astype(np.float32)
    return np.where(made == 1, np.float32(-0.0), made)


def laplace(v: Any) -> Any:
    return jnp.roll(v, 1, 0) + jnp.roll(v, -1, 0) - 2 * v


def steps(u: Any, w: Any) -> Any:
    return (jax.lax.scan(lambda s, _: (s + laplace(s), None), u, length=3)[0] * w).sum()


def halves(u: Any, w: Any) -> Any:
    return (jnp.concatenate([u[8:] * 2, -u[:8]]) * w).sum()


def thirds(u: Any, w: Any) -> Any:
    parts = u[:4], u[4:12], u[12:16] * 3
    return sum((part * w[: part.shape[0]]).sum() for part in parts)


@pytest.mark.parametrize("fn", [lambda u, w: (laplace(u) * w).sum(), steps, halves, thirds])
def test_gradients_are_those_of_one_device_bit_for_bit(fn: Callable[..., Any]) -> None:
    u, w = numbers(16, 16), numbers(16, 16)
    bits = jax.grad(fn)

    def found(u: Any, w: Any) -> Any:
        return jax.lax.bitcast_convert_type(bits(u, w), jnp.int32)

    expected = np.asarray(jax.jit(found)(u, w))
    for layout in (ROWS, dtensor.Layout([None, "x"], LINE)):
        got = dtensor.jit(found, in_layouts=layout, out_layouts=layout)(u, w)
        np.testing.assert_array_equal(np.asarray(got.to_jax()), expected)


def test_the_gradient_of_two_rolls_sends_two_rows() -> None:
    gradient = dtensor.jit(
        jax.grad(lambda u, w: (laplace(u) * w).sum()), in_layouts=ROWS, out_layouts=ROWS
    )
    assert gradient.lower(numbers(480, 16), numbers(480, 16)).wire_bytes == 2 * ROW


def test_gradients_of_neighbouring_parameters_are_reduced_once_after_a_loop() -> None:
    def walk(x: Any, p: Any) -> Any:
        step = jax.lax.scan(lambda s, row: (s * p[0] + p[1] * row + p[2], None), x[0], x)
        return step[0].sum()

    gradient = dtensor.jit(jax.grad(walk, 1), in_layouts=(dtensor.Layout([None, "x"], LINE), None))
    x, p = numbers(12, 64), np.asarray([0.5, -1, 2], np.float32)
    (reduced,) = gradient.lower(x, p).collectives
    assert (reduced.kind, reduced.trip_count) == ("all_reduce", 1)
    found = gradient(x, p).to_jax()
    np.testing.assert_allclose(np.asarray(found), jax.grad(walk, 1)(x, p), rtol=1e-5)


def test_parts_of_negative_zeros_are_negative_zeros_until_zero_is_added() -> None:
    """Each shard's part of a sum of negative zeros, and of parts that cancel."""

    def bits(x: Any, p: Any) -> Any:
        g = jax.grad(lambda p: (x * p[0] + p[1] * x * x).sum())(p)
        return jax.lax.bitcast_convert_type(g, jnp.int32)

    p = np.ones(2, np.float32)
    for x in (np.full(16, -0.0, np.float32), np.tile(np.asarray([1, -1], np.float32), 8)):
        found = dtensor.jit(bits, in_layouts=(dtensor.Layout(["x"], LINE), None))(x, p)
        np.testing.assert_array_equal(np.asarray(found.to_jax()), jax.jit(bits)(x, p))


# Per case what stands before and behind two parts of 64 rows, and with what: -0.0, but once.
NEGATIVE: dict[str, tuple[tuple[int, int], tuple[int, int], float]] = {
    "joined": ((0, 32), (32, 0), -0.0),
    "summed": ((8, 24), (8, 24), -0.0),
    "moved": ((0, 63), (8, 0), -0.0),
    "both signs": ((8, 24), (8, 24), 0.0),
}


@pytest.mark.parametrize("name", NEGATIVE)
@pytest.mark.parametrize("number", [-0.0, 0.0, 1.0])
def test_paddings_with_negative_zeros_stay_negative(name: str, number: float) -> None:
    first, second, fill = NEGATIVE[name]

    def padded(a: Any, b: Any) -> Any:
        one = jnp.pad(a[: 64 - sum(first)], [first, (0, 0)], constant_values=-0.0)
        other = jnp.pad(b[: 64 - sum(second)], [second, (0, 0)], constant_values=fill)
        return jax.lax.bitcast_convert_type(one + other, jnp.int32)

    a, b = np.full((64, 3), -0.0, np.float32), np.full((64, 3), number, np.float32)
    rows = dtensor.Layout(["x", dtensor.UNSHARDED], LINE)
    found = dtensor.jit(padded, in_layouts=rows, out_layouts=rows)(a, b)
    np.testing.assert_array_equal(np.asarray(found.to_jax()), jax.jit(padded)(a, b))
