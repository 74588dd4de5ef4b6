"""Loops that keep what they carry between bounds, along split dimensions, on 8 devices and on one.

Factors are powers of two and zeros, and all else is whole: all that comes of them is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.dialect.layout import UNSHARDED
from tests.py.passes.on_mesh import LINE, one_by_one, run, sent, split_trips

ROWS = ["x", UNSHARDED]
Array = np.ndarray[Any, Any]


def whole(n: int) -> tuple[Array, Array]:
    random = np.random.default_rng(0)
    x, a = random.integers(-5, 6, (2, n, 6)).astype(np.float32)
    return x, a


def envelope(x: Any, a: Any) -> Any:
    step = lambda c, z: (jnp.maximum(jnp.abs(z), 0.5 * c),) * 2  # noqa: E731
    return lax.scan(step, jnp.zeros_like(x[0]), x)


def clipped(x: Any, a: Any) -> Any:
    """From the last row on."""

    def step(c: Any, z: Any) -> Any:
        after = -jnp.clip(c + z, -7, 8)
        return after, c - after

    return lax.scan(step, jnp.ones_like(x[0]), x, reverse=True)


def waiting(x: Any, a: Any) -> Any:
    """In a queue; the longest of all, how often there was none, and a count."""

    def step(carry: Any, z: Any) -> Any:
        wait, total, n = carry
        after = jnp.maximum(0.0, wait + z[0] - z[1])
        return (after, total + jnp.sum(after == 0.0), n + 1), (wait, n)

    (_, total, n), (waits, _) = lax.scan(step, (2 * jnp.ones_like(x[0]), 0.0, 0), (x, a))
    return waits.max(0), waits, total, n


def turned(x: Any, a: Any) -> Any:
    """Factors of both signs and zero, and bounds that some of them turn round."""

    def step(c: Any, z: Any) -> Any:
        factor = jnp.where(z[1] > 2, -0.5, jnp.where(z[1] < -2, 0.0, 1.0))
        kept = jnp.where(z[0] > 3, z[1], lax.clamp(-6.0, 3 - jnp.clip(c, -8, 7), 9.0))
        return factor * jnp.minimum(kept, z[0] + 4) - z[1], c

    return lax.scan(step, jnp.zeros_like(x[0]), (x, a))


def two(x: Any, a: Any) -> Any:
    """Two that know nothing of each other; what is written is of both."""

    def step(carry: Any, z: Any) -> Any:
        one, other = carry
        after = jnp.maximum(one, z[0]), jnp.where(z[1] > 0, jnp.minimum(other / 2, z[1]), -z[1])
        return after, one * other

    return lax.scan(step, (x[0], a[0]), (x, a))


PROGRAMS: list[Callable[..., Any]] = [envelope, clipped, waiting, turned, two]


@pytest.mark.sweep
@pytest.mark.parametrize(("n", "mesh", "axes", "program"), split_trips(PROGRAMS))
def test_bounds_factors_and_what_is_added_are_sent(
    n: int, mesh: Any, axes: Any, program: Callable[..., Any]
) -> None:
    x, a = whole(n)
    compiled = run(program, mesh, [[axes, UNSHARDED]] * 2, x, a)
    assert sent(compiled) < x.nbytes / 2


@pytest.mark.sweep
@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients(program: Callable[..., Any]) -> None:
    def loss(x: Any, a: Any) -> Any:
        found = [y for y in jax.tree.leaves(program(x, a)) if jnp.issubdtype(y.dtype, jnp.floating)]
        return sum(jnp.sum(y * jnp.arange(y.size).reshape(y.shape)) for y in found)

    x, a = whole(192)
    compiled = run(jax.grad(loss, (0, 1)), LINE, [ROWS] * 2, x, a, error=1e-5, absolute=1e-5)
    assert sent(compiled) < x.nbytes


@pytest.mark.sweep
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_goes_where_it_goes_on_one_device(
    value: float, program: Callable[..., Any]
) -> None:
    for place in (0, 39, 191):
        for k in (0, 1):
            given = whole(192)
            given[k][place, 1:4] = value
            run(program, LINE, [ROWS] * 2, *given)


def test_a_bound_does_not_hide_that_the_factors_of_a_shard_overflow() -> None:
    """2 ** 128 is no float32; of what is carried, 2 ** -120, it makes 256, below the bound."""

    def program(factors: Any, start: Any) -> Any:
        return lax.scan(lambda c, f: (jnp.minimum(f * c, 1000.0),) * 2, start, factors)

    factors = np.ones((2048, 3), np.float32)
    factors[:128] = 2
    start = np.full(3, 2.0**-120, np.float32)
    compiled = run(program, LINE, [ROWS, None], factors, start)
    assert sent(compiled) < factors.nbytes / 8


@pytest.mark.sweep
@pytest.mark.parametrize(
    "step",
    [
        lambda c, z: jnp.maximum(c + z, c),
        lambda c, z: jnp.where(c > 0, c, z),
        lambda c, z: jnp.maximum(c, z) * jnp.maximum(c, 1),
        lambda c, z: jnp.abs(c) + z,
        lambda c, z: jnp.maximum(c, c[::-1]) + z,
    ],
)
def test_other_loops_run_one_block_after_another(step: Callable[[Any, Any], Any]) -> None:
    def program(x: Any) -> Any:
        return lax.scan(lambda c, z: (step(c, z),) * 2, x[0], x)[1]

    compiled = run(program, LINE, [ROWS], whole(192)[0] / 8)
    assert one_by_one(compiled)
    assert sent(compiled) <= 10 * 6 * 4
