"""Lookups at the largest place so far, on 8 devices against one: they send a row per shard."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.py.passes.on_mesh import GRID, LINE, kinds, numbers, run

N = 8 * 29
COUNT = jnp.arange
SPLIT = ["x"]


def gaps(n: int = N, share: float = 0.8) -> Any:
    """Numbers of which a part is missing."""
    rng = np.random.default_rng(n)
    x = np.asarray(numbers((n,)))
    return np.where(rng.random(n) < share, np.nan, x).astype(np.float32)


def marks(n: int = N, share: float = 0.1) -> Any:
    return np.random.default_rng(n + 1).random(n) < share


def filled(x: Any) -> Any:
    """The last number before each missing one."""
    return x[lax.cummax(jnp.where(jnp.isnan(x), 0, COUNT(x.shape[0])))]


def filled_from_behind(x: Any) -> Any:
    n = x.shape[0]
    return x[lax.cummin(jnp.where(jnp.isnan(x), n - 1, COUNT(n)), reverse=True)]


def since_group(x: Any, is_first: Any) -> Any:
    """The difference to the first of each group."""
    return x - x[lax.cummax(jnp.where(is_first.at[0].set(True), COUNT(x.shape[0]), 0))]


def restarted_sum(x: Any, restarts: Any) -> Any:
    total = jnp.cumsum(x)
    place = lax.cummax(jnp.where(restarts, COUNT(x.shape[0]), -1))
    return total - jnp.where(place >= 0, (total - x)[jnp.maximum(place, 0)], 0)


def scanned(x: Any) -> Any:
    place = lax.associative_scan(jnp.maximum, jnp.where(jnp.isnan(x), 3, COUNT(x.shape[0])))
    return jnp.take(x, place, mode="clip")


@pytest.mark.parametrize("program", [filled, filled_from_behind, scanned])
@pytest.mark.parametrize("n", [N, N + 3, 8 * 3 + 1])
def test_missing_numbers_are_filled(program: Callable[[Any], Any], n: int) -> None:
    for share in (0.8, 0.0, 1.0):
        compiled = run(program, LINE, [SPLIT], gaps(n, share), out=SPLIT)
        assert kinds(compiled) <= {"shard_permute", "all_reduce", "halo_exchange", "permute"}
        assert compiled.wire_bytes < 100
    run(program, GRID, [[("y", "x")]], gaps(n), out=[("y", "x")])


@pytest.mark.parametrize("program", [since_group, restarted_sum])
@pytest.mark.parametrize("n", [N, N + 3])
def test_groups_begin_at_the_last_mark(program: Callable[..., Any], n: int) -> None:
    compiled = run(program, LINE, [SPLIT, SPLIT], numbers((n,)), marks(n), out=SPLIT)
    assert compiled.wire_bytes < 120


def test_rows_are_carried() -> None:
    def program(x: Any, known: Any) -> Any:
        return x[lax.cummax(jnp.where(known, COUNT(N), 0))]

    for out in (["x", None], [None, "x"]):
        compiled = run(program, LINE, [["x", None], SPLIT], numbers((N, 16)), marks(), out=out)
        assert compiled.wire_bytes < N * 16 * 4 / 8 + 1000
    run(program, GRID, [["y", "x"], ["y"]], numbers((N, 16)), marks(), out=["y", "x"])

    def columns(x: Any, known: Any) -> Any:
        return jnp.take(x, lax.cummax(jnp.where(known, COUNT(N), 5)), axis=1)

    run(columns, LINE, [[None, "x"], SPLIT], numbers((6, N)), marks(), out=[None, "x"])


@pytest.mark.parametrize("axis", [0, 1])
def test_each_column_by_itself(axis: int) -> None:
    x = gaps(N * 12).reshape((N, 12) if axis == 0 else (12, N))

    def program(x: Any) -> Any:
        places = jnp.expand_dims(COUNT(N), 1 - axis)
        found = lax.cummax(jnp.where(jnp.isnan(x), 0, places), axis=axis)
        return jnp.take_along_axis(x, found, axis=axis)

    specs = ["x", None] if axis == 0 else [None, "x"]
    compiled = run(program, LINE, [specs], x, out=specs)
    assert compiled.wire_bytes < 1000
    both = ["y", "x"] if axis == 0 else ["x", "y"]
    run(program, GRID, [both], x, out=both)

    def fixed(x: Any) -> Any:
        found = lax.cummin(jnp.where(jnp.isnan(x), 90, 100), axis=axis)
        return jnp.take_along_axis(x, found, axis=axis, mode="clip")

    run(fixed, LINE, [specs], x, out=specs)


def test_places_that_nobody_knows_are_looked_up() -> None:
    def program(x: Any, places: Any) -> Any:
        return x[lax.cummax(places)]

    places = np.random.default_rng(0).integers(0, N, N).astype(np.int32)
    run(program, LINE, [SPLIT, SPLIT], numbers((N,)), places, out=SPLIT)


def test_gradients() -> None:
    def loss(x: Any) -> Any:
        return jnp.sum(jnp.where(jnp.isnan(x), 0.0, since_group(x, ~jnp.isnan(x))) ** 2)

    gradient = jax.grad(loss)
    run(gradient, LINE, [SPLIT], np.nan_to_num(gaps()), out=SPLIT)
