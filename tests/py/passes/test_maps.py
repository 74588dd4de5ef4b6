"""Loops whose trips need nothing of one another: shards of what they walk along run their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.py.passes.on_mesh import GRID, LINE, numbers, run
from tests.py.uneven.on_meshes import FIVE

U = None
MATRICES = jnp.asarray(np.random.default_rng(0).normal(size=(16, 4, 6)), np.float32)
W = numbers((6, 5))


def square(r: Any) -> Any:
    return r @ r.T + 4 * jnp.eye(4)


def filtered(r: Any) -> Any:
    """A loop in the loop, of which all blocks have as many trips."""
    return lax.scan(lambda c, x: (c / 2 + x, c), r[0], r)


def picked(r: Any) -> Any:
    return r[jnp.argmax(r[:, 0])], lax.dynamic_slice(r, (jnp.argmin(r[:, 1]), 1), (2, 3)), r[:, 0]


TRIPS: dict[str, Callable[[Any], Any]] = {
    "product": lambda r: jnp.tanh(r) @ W,
    "sort": lambda r: jnp.sort(r, axis=0),
    "largest": lambda r: lax.top_k(r, 2),
    "running sums": lambda r: jnp.cumsum(r, axis=1),
    "transform": lambda r: jnp.abs(jnp.fft.rfft(r)),
    "cholesky": lambda r: jnp.linalg.cholesky(square(r)),
    "QR": jnp.linalg.qr,
    "eigenvalues": lambda r: jnp.linalg.eigvalsh(square(r)),
    "solve": lambda r: jnp.linalg.solve(square(r), r),
    "computed places": picked,
    "rows of a table": lambda r: W[jnp.clip(jnp.round(r), 0, 5).astype(jnp.int32)],
    "written rows": lambda r: r.at[2].set(0).at[jnp.argmax(r[:, 0])].add(1),
    "a loop": filtered,
    "noise": lambda r: r + jax.random.normal(jax.random.key(3), r.shape),
}


def mapped(name: str) -> Callable[[Any], Any]:
    return lambda x: lax.map(TRIPS[name], x)


@pytest.mark.sweep
@pytest.mark.parametrize("name", TRIPS)
def test_a_map_sends_nothing(name: str) -> None:
    compiled = run(mapped(name), LINE, [["x", U, U]], MATRICES, error=1e-4, absolute=1e-5)
    assert not compiled.collectives


@pytest.mark.parametrize("name", ["product", "solve", "written rows", "a loop"])
def test_a_map_over_rows_that_do_not_divide(name: str) -> None:
    run(mapped(name), FIVE, [["x", U, U]], MATRICES[:13], error=1e-4, absolute=1e-5)


def test_a_map_over_both_axes_and_its_gradient() -> None:
    def loss(x: Any) -> Any:
        return jnp.sin(lax.map(lambda r: jnp.tanh(r) @ W, x)).sum()

    compiled = run(jax.grad(loss), GRID, [[("x", "y"), U, U]], MATRICES, error=1e-4, absolute=1e-5)
    assert not compiled.collectives


def test_a_map_with_a_trip_for_each_shard() -> None:
    """As of parts of a batch, which are rows of several."""
    x = jnp.tile(MATRICES, (2, 1, 1))
    compiled = run(
        lambda x: lax.map(TRIPS["product"], x, batch_size=4), LINE, [["x", U, U]], x, error=1e-5
    )
    assert not compiled.collectives


def test_a_map_from_the_end_on_counts() -> None:
    def function(x: Any) -> Any:
        numbered = jnp.arange(16.0), x
        return lax.scan(lambda c, nx: (c, nx[0] * nx[1]), 0, numbered, reverse=True)[1]

    assert not run(function, GRID, [["y", U, U]], numbers((16, 4, 6))).collectives


def test_rows_that_are_known_numbers_are_not_computed() -> None:
    """Evenly spaced ones and others, of each trip, and what a trip adds to what is split."""

    def function(x: Any) -> Any:
        def trip(n: Any, row: Any) -> Any:
            return n + 1, (row * n, n * 3, n * n % 7)

        return lax.scan(trip, 2, x)[1]

    compiled = run(function, GRID, [["y", U, U]], numbers((16, 4, 6)))
    assert not compiled.collectives


def test_parts_of_a_batch_whose_gradients_are_added_up_are_divided_themselves() -> None:
    """Each device would hold all that is computed of a part, in the place of its share of it."""

    def function(x: Any) -> Any:
        parts = x.reshape(16, 8, 6)
        return lax.scan(lambda c, part: (c + jnp.tanh(part) @ W, None), jnp.zeros((8, 5)), parts)[0]

    compiled = run(function, LINE, [["x", U]], numbers((128, 6)), error=1e-5)
    assert {c.shape[0] for c in compiled.collectives if c.trip_count == 16} <= {8}


def test_trips_that_stop_apart_are_left_alone() -> None:
    def halved(r: Any) -> Any:
        return lax.while_loop(lambda r: jnp.abs(r).max() > 1, lambda r: r / 2, r)

    run(lambda x: lax.map(halved, x), LINE, [["x", U, U]], numbers((16, 4, 6)) * 5)
