"""Loops that carry several values, some of them known before the others, on 8 devices and one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.dialect.layout import UNSHARDED
from tests.py.passes.on_mesh import GRID, LINE, one_by_one, run, sent

ROWS = ["x", UNSHARDED]


def normal(n: int) -> Any:
    return np.random.default_rng(0).normal(size=(n, 6)).astype(np.float32)


def softmax_sum(x: Any) -> Any:
    """A maximum, and a sum that is scaled down when a larger one comes."""

    def step(carry: Any, z: Any) -> Any:
        most, total = carry
        now = jnp.maximum(most, z)
        return (now, total * jnp.exp(most - now) + jnp.exp(z - now)), None

    (most, total), _ = lax.scan(step, (jnp.full(6, -jnp.inf), jnp.zeros(6)), x)
    return most + jnp.log(total)


def attention(x: Any) -> Any:
    """Softmax over blocks of keys, with the values that it weighs: carries of three shapes."""
    keys = x.reshape(-1, 2, 3, 2)

    def step(carry: Any, key: Any) -> Any:
        most, total, out = carry
        scores = jnp.einsum("hd,bhd->hb", jnp.ones((3, 2)), key)
        now = jnp.maximum(most, scores.max(1))
        weights, less = jnp.exp(scores - now[:, None]), jnp.exp(most - now)
        out = out * less[:, None] + jnp.einsum("hb,bhd->hd", weights, key)
        return (now, total * less + weights.sum(1), out), None

    start = jnp.full(3, -jnp.inf), jnp.zeros(3), jnp.zeros((3, 2))
    (_, total, out), _ = lax.scan(step, start, keys)
    return out / total[:, None]


def moving_variance(x: Any) -> Any:
    """Three stages: a mean, the variance around it, and the worst outlier yet, from the end on."""

    def step(carry: Any, z: Any) -> Any:
        mean, variance, worst = carry
        mean = 0.5 * mean + 0.5 * z
        variance = 0.5 * variance + 0.5 * (z - mean) ** 2
        worst = jnp.maximum(worst, (z - mean) ** 2 / (variance + 1))
        return (mean, variance, worst), (mean, worst)

    return lax.scan(step, (x[0], jnp.ones(6), jnp.zeros(6)), x, reverse=True)


PROGRAMS: list[Callable[..., Any]] = [softmax_sum, attention, moving_variance]


@pytest.mark.sweep
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    ("n", "mesh", "axes"), [(1600, LINE, "x"), (1204, GRID, "y"), (1596, LINE, "x")]
)
def test_stages_are_found_side_by_side(
    n: int, mesh: Any, axes: Any, program: Callable[..., Any]
) -> None:
    x = normal(n)
    compiled = run(program, mesh, [[axes, UNSHARDED]], x, error=1e-5, absolute=1e-6)
    assert sent(compiled) < x.nbytes / 4
    assert not one_by_one(compiled)


@pytest.mark.sweep
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_goes_where_it_goes_on_one_device(
    value: float, program: Callable[..., Any]
) -> None:
    for place in (0, 390, 1599):
        x = normal(1600)
        x[place, 1:4] = value
        run(program, LINE, [ROWS], x, error=1e-5, absolute=1e-6)


def test_a_shard_that_is_masked_altogether_has_no_maximum() -> None:
    x = normal(1600)
    x[:500] = -np.inf
    run(softmax_sum, LINE, [ROWS], x, error=1e-5)


def test_a_loop_that_only_adds_up_little_is_divided_between_its_trips() -> None:
    def program(x: Any) -> Any:
        return lax.scan(lambda c, z: (c + jnp.outer(z, z), None), jnp.zeros((6, 6)), x)[0]

    compiled = run(program, LINE, [ROWS], np.round(normal(192) * 4))
    assert sent(compiled) == 2 * 7 / 8 * 6 * 6 * 4
