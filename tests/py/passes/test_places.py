"""Arrays that are read at the places of an argsort, on 8 devices against one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED
from dtensor.dialect.mesh import Mesh
from tests.py.passes.on_mesh import GRID, LINE, run, sent

COUNT = 4608
SORTED = 2 * 7 / 8 + 1  # times the bytes of a shard: what columnsort sends of an array


def keys(size: int = COUNT, seed: int = 0) -> Any:
    """Many equal numbers, zeros of both signs, infinities and NaN."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, size).astype(np.float32)
    x[rng.integers(0, size, size // 3)] = -0.0
    x[rng.integers(0, size, 4)] = [np.nan, -np.nan, np.inf, -np.inf]
    return x


def bits(value: Any) -> Any:
    return jax.lax.bitcast_convert_type(value, jnp.int32)


def own(x: Any) -> Any:
    return bits(x[jnp.argsort(x)])


def others(x: Any, y: Any, z: Any) -> Any:
    order = jnp.argsort(-x)
    return y[order], bits(x[order]), jnp.take(z, order), order


def by_two_keys(x: Any, y: Any, z: Any) -> Any:
    order = jnp.lexsort((y, x))
    return z[order], bits(x[order])


def later(x: Any, y: Any, z: Any) -> Any:
    """What is read is computed after the sort, and the sort's own places are read of it."""
    order = jnp.argsort(x)
    return (y * jnp.sum(jnp.isnan(x)))[order], (z + order)[order]


@pytest.mark.sweep
@pytest.mark.parametrize(("mesh", "axes"), [(LINE, "x"), (GRID, ("y", "x")), (GRID, "y")])
@pytest.mark.parametrize("size", [COUNT, 1003])
def test_what_is_read_in_an_order_is_that_of_one_device(mesh: Mesh, axes: Any, size: int) -> None:
    x, y = keys(size), np.arange(size, dtype=np.float32)
    z = np.random.default_rng(1).integers(0, 9, size).astype(np.int32)
    run(own, mesh, [[axes]], x)
    for form in (others, by_two_keys, later):
        run(form, mesh, [[axes]] * 3, x, y, z)


@pytest.mark.sweep
@pytest.mark.parametrize("kind", [jnp.bfloat16, jnp.bool_, jnp.complex64, jnp.uint8])
def test_elements_of_any_type_are_read_in_an_order(kind: Any) -> None:
    y = jnp.asarray(np.random.default_rng(2).integers(0, 200, COUNT), kind)
    compiled = run(lambda x, y: y[jnp.argsort(x)], LINE, [["x"]] * 2, keys(), y)
    # Places, of 2 bytes, decide between equal keys, and are not sent where nothing reads them.
    assert sent(compiled) == COUNT // 8 * (SORTED * (4 + y.dtype.itemsize) + 1.25 * 2)


def test_rows_are_read_in_an_order_of_their_own() -> None:
    def along(x: Any, y: Any) -> Any:
        order = jnp.argsort(x, axis=0)
        return jnp.take_along_axis(y, order, 0), bits(jnp.take_along_axis(x, order, 0))

    x = np.stack([keys(seed=seed) for seed in range(3)], 1)
    y = np.random.default_rng(3).normal(size=x.shape).astype(np.float32)
    compiled = run(along, LINE, [["x", UNSHARDED]] * 2, x, y)
    assert sent(compiled) == SORTED * COUNT // 8 * 3 * (4 + 2 + 4)


def test_keys_are_sorted_without_places_that_nobody_reads() -> None:
    assert sent(run(own, LINE, [["x"]], keys())) == SORTED * COUNT // 8 * 4


def test_unique_numbers_of_a_split_dimension_are_sorted() -> None:
    """And a few of them sent, where all were."""

    def unique(x: Any) -> Any:
        return jnp.unique(x, size=64, fill_value=-1)

    x = np.random.default_rng(4).integers(0, 50, COUNT).astype(np.int32)
    assert sent(run(unique, LINE, [["x"]], x)) < SORTED * COUNT // 8 * 4 + 800
    run(unique, GRID, [["y"]], x)


def test_what_all_devices_have_is_looked_up() -> None:
    compiled = run(lambda x, y: y[jnp.argsort(x)], LINE, [["x"], None], keys(), keys(seed=1))
    assert sent(compiled) < SORTED * COUNT // 8 * (4 + 2 + 4)


@pytest.mark.sweep
@pytest.mark.parametrize("element", [jnp.int8, jnp.uint8, jnp.int16])
@pytest.mark.parametrize("read", [slice(None), slice(3)], ids=["all", "few"])
def test_places_that_a_type_does_not_hold_are_what_they_became(element: Any, read: slice) -> None:
    x = np.random.default_rng(0).normal(size=304).astype(np.float32)

    def wrapped(x: Any, y: Any) -> Any:
        order = jnp.argsort(x).astype(element).astype(jnp.int32)[read]
        return order, bits(x[order]), y[order]

    run(wrapped, LINE, [["x"], ["x"]], x, np.arange(304, dtype=np.float32))
