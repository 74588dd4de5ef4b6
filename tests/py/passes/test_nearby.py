"""Gathers at known places in no pattern, near to where each shard's results are."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from tests.py.passes.on_mesh import LINE, kinds, numbers, run, sent
from tests.py.uneven.on_meshes import TILED, check

SORTED = np.sort(np.random.default_rng(0).integers(0, 200, 200))


def even_places(size: int, count: int) -> Any:
    """Of an even count none is half way between two elements, where rounding would decide."""
    return jnp.round(jnp.linspace(0, size - 1, count // 2 * 2)).astype(int)


def between(x: Any, count: int) -> Any:
    """Linear interpolation along the rows."""
    place = jnp.linspace(0, len(x) - 1, count)
    low = jnp.clip(jnp.floor(place).astype(int), 0, len(x) - 2)
    part = (place - low)[:, None]
    return x[low] * (1 - part) + x[low + 1] * part


def resampled(x: Any) -> list[Any]:
    n, m = x.shape
    return [
        x[even_places(n, n // 2 + 3)],
        x[even_places(n, n * 2 - 1)] * 2,
        x[:, even_places(m, m - 5)],
        x[SORTED * n // 200],
        x[even_places(n, n - 3)][:, even_places(m, 17)],
        jax.image.resize(x, (n * 3 // 2, m * 3 // 4), "nearest"),
        jnp.zeros_like(x).at[even_places(n, n // 2)].add(x[: n // 4 * 2]),
    ]


@jax.grad
def gradient(x: Any) -> Any:
    return sum(jnp.sum(each**2 % 5) for each in resampled(x))


@pytest.mark.sweep
@pytest.mark.parametrize("rows", [160, 163])
@pytest.mark.parametrize(("mesh", "specs"), TILED)
def test_elements_are_those_of_one_device(mesh: Mesh, specs: list[Any], rows: int) -> None:
    x, layout = numbers((rows, 48)), Layout(specs, mesh)
    check(resampled, x, mesh=mesh, in_layouts=(layout,))
    check(gradient, x, mesh=mesh, in_layouts=(layout,), out_layouts=layout)
    # Places up to 162 are rounded to 1.5e-5, and elements that differ by 2 lie between.
    check(partial(between, count=211), x, mesh=mesh, in_layouts=(layout,), absolute=6e-5)


@pytest.mark.parametrize("dtype", [jnp.int8, jnp.bool_, jnp.complex64, jnp.bfloat16])
def test_elements_of_any_type(dtype: Any) -> None:
    def read(x: Any) -> Any:
        return x[even_places(160, 90)], x[SORTED * 160 // 200]

    run(read, LINE, [["x", UNSHARDED]], numbers((160, 6), dtype))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint32])
def test_places_of_any_type(dtype: Any) -> None:
    places = np.linspace(0, 119, 80).round().astype(dtype)
    compiled = run(lambda x: x[places], LINE, [["x"]], numbers((120,)))
    assert kinds(compiled) <= {"shard_permute", "halo_exchange"}


def test_shards_read_few_elements_of_their_neighbours() -> None:
    """Places of 512 in 1000 are off by less than one: with one more that rounding may add, 2."""

    def halved(x: Any) -> Any:
        return x[even_places(1000, 512)]

    compiled = run(halved, LINE, [["x", UNSHARDED]], numbers((1000, 3)), out=["x", UNSHARDED])
    assert kinds(compiled) <= {"shard_permute", "halo_exchange"}
    assert sent(compiled) <= 2 * 2 * 3 * 4
    back = run(
        jax.grad(lambda x: jnp.sum(halved(x) ** 2)), LINE, [["x"]], numbers((1000,)), out=["x"]
    )
    assert kinds(back) <= {"shard_permute", "halo_exchange"}
    assert sent(back) <= 2 * 2 * 2 * 4


def test_places_outside_are_moved_inside_or_dropped() -> None:
    places = np.sort(np.random.default_rng(0).integers(-2, 130, 128))

    def read(x: Any) -> Any:
        return jnp.take(x, places, mode="clip"), jnp.zeros_like(x).at[places].add(x, mode="drop")

    run(read, LINE, [["x"]], numbers((128,)))


def test_places_far_away_are_not_cut() -> None:
    places = np.random.default_rng(0).permutation(256)
    assert kinds(run(lambda x: x[places], LINE, [["x"]], numbers((256,)))) == {"all_gather"}
