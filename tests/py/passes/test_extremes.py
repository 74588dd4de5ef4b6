"""argmax and argmin of a split dimension, on 8 devices against one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.client import create_mesh
from tests.py.passes.on_mesh import GRID, LINE, kinds, run, sent

THREE = create_mesh([("x", 3), ("y", 2)])
Array = np.ndarray[Any, Any]


def rows(kind: Any, size: int = 2304) -> Array:
    """Few different values, and whatever is hard to compare."""
    x = np.random.default_rng(0).integers(0, 40, (9, size)).astype(kind)
    if kind not in (np.int32, np.int64, np.uint16, np.int16):
        x[0], x[1] = -np.inf, np.inf
        x[2, [7, 900, 2000]] = np.nan
        x[3, 1500] = -np.nan
        x[4] = np.nan
        x[5] = 0
        x[5, ::7] = -0.0
        x[6] = -(x[6] == 3).astype(kind)
        x[7, 2001:] = np.inf
    return x


def both(a: Any) -> Any:
    return jnp.argmax(a, 1), jnp.argmin(a, 1)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("mesh", "axes"), [(LINE, "x"), (GRID, "y"), (GRID, ("y", "x")), (THREE, ("x", "y"))]
)
@pytest.mark.parametrize(
    "kind", [np.float32, np.float16, jnp.bfloat16, np.int32, np.uint16, np.int16]
)
def test_the_first_of_the_largest_and_smallest(mesh: Mesh, axes: Any, kind: Any) -> None:
    for function in (both, lambda a: jnp.argmax(a, 1)):
        compiled = run(function, mesh, [[UNSHARDED, axes]], rows(kind))
        assert kinds(compiled) == {"all_reduce"}
        assert sent(compiled) <= 2 * 2 * 9 * (4 + 4)


@pytest.mark.parametrize("axes", ["x", ("x", "y")])
def test_where_places_are_split_each_device_gets_its_own_alone(axes: Any) -> None:
    x = np.random.default_rng(0).integers(0, 40, (8, 96)).astype(np.float32)
    if axes != "x":  # six rows are no multiple of eight shards
        compiled = run(lambda a: jnp.argmax(a, 1), GRID, [[UNSHARDED, axes]], x[:6], out=["x"])
        assert kinds(compiled) == {"all_reduce", "reduce_scatter"}  # of values, and of places
    # Where the shards divide the rows, each gets of its own what all shards have chosen.
    compiled = run(lambda a: jnp.argmax(a, 1), GRID, [[UNSHARDED, axes]], x, out=["x"])
    assert "all_to_all" in kinds(compiled)
    assert "all_reduce" not in kinds(compiled)


@pytest.mark.sweep
@pytest.mark.parametrize(("mesh", "axes"), [(LINE, "x"), (GRID, ("y", "x")), (THREE, "x")])
@pytest.mark.parametrize("kind", [np.float32, jnp.bfloat16, np.int32])
def test_choices_of_many_rows_are_exchanged(mesh: Mesh, axes: Any, kind: Any) -> None:
    x = np.concatenate([rows(kind)] * 8)
    compiled = run(both, mesh, [[UNSHARDED, axes]], x)
    assert kinds(compiled) == {"all_to_all", "all_gather"}
    assert sent(compiled) < 2 * 2 * len(x) * (4 + 4) * 7 / 8
    if kind is not np.int32:
        assert "all_reduce" not in kinds(run(largest, mesh, [[UNSHARDED, axes]], x))


def largest(a: Any) -> Any:
    """The value too, as the body gives it."""

    def choose(left: Any, right: Any) -> Any:
        (a, i), (b, j) = left, right
        before = (a > b) | (a != a)
        tied = (a == b) & (i < j)
        return jnp.where(before, a, b), jnp.where(before | tied, i, j)

    place = jax.lax.broadcasted_iota(jnp.int32, a.shape, 1)
    start = jnp.array(-jnp.inf, a.dtype), jnp.int32(0)
    value, place = jax.lax.reduce((a, place), start, choose, (1,))
    return value, jnp.signbit(jnp.where(value == 0, 1, value)), place


@pytest.mark.parametrize("kind", [np.float32, jnp.bfloat16])
def test_the_value_comes_with_its_place(kind: Any) -> None:
    compiled = run(largest, LINE, [[UNSHARDED, "x"]], rows(kind))
    assert kinds(compiled) == {"all_reduce"}


@pytest.mark.parametrize("kind", [np.int8, np.uint8, bool])
def test_a_byte_for_each_key(kind: Any) -> None:
    x = np.random.default_rng(1).integers(0, 2 if kind is bool else 99, (9, 2304)).astype(kind)
    x[0], x[1] = x[0].min(), x[1].max()
    compiled = run(both, LINE, [[UNSHARDED, "x"]], x)
    assert kinds(compiled) == {"all_reduce"}
    assert sent(compiled) == 2 * 2 * 7 / 8 * 9 * (1 + 4)
    run(largest_byte, LINE, [[UNSHARDED, "x"]], x)


def largest_byte(a: Any) -> Any:
    """The value is read too."""

    def choose(left: Any, right: Any) -> Any:
        (a, i), (b, j) = left, right
        return jnp.where(a > b, a, b), jnp.where((a > b) | ((a == b) & (i < j)), i, j)

    place = jax.lax.broadcasted_iota(jnp.int32, a.shape, 1)
    least = False if a.dtype == bool else np.iinfo(a.dtype).min
    return jax.lax.reduce((a, place), (jnp.array(least, a.dtype), jnp.int32(0)), choose, (1,))


def test_types_of_64_bits() -> None:
    with jax.enable_x64(True):
        for kind in (np.float64, np.int64):
            compiled = run(both, GRID, [[UNSHARDED, ("x", "y")]], rows(kind))
            assert kinds(compiled) == {"all_reduce"}


def test_types_that_have_no_such_keys_gather_the_choices() -> None:
    x = np.random.default_rng(1).integers(0, 9, (3, 4096)).astype(jnp.float8_e5m2)
    compiled = run(both, LINE, [[UNSHARDED, "x"]], x)
    assert kinds(compiled) == {"all_gather"}


def test_rows_and_columns_of_a_grid() -> None:
    x = np.random.default_rng(2).normal(size=(64, 96)).astype(np.float32)
    x[5, 40] = np.nan
    for dim in (0, 1, None):
        run(lambda a, dim=dim: jnp.argmax(a, dim), GRID, [["x", "y"]], x)
