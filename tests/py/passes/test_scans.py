"""Prefix sums of split dimensions on 8 devices, against one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.client import create_mesh
from tests.py.passes.on_mesh import BOTH, GRID, LINE, kinds, run, sent

ROWS = ["x", UNSHARDED]


def numbers(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """Few small whole numbers, all sums and products of which are exact."""
    x = np.ones(shape, np.int32)
    x[:: max(1, shape[0] // 5)] = 2
    return x.astype(dtype)


def scans(x: Any) -> Any:
    found = [jax.lax.cumsum(x, 0), jax.lax.cumsum(x, 0, reverse=True), jax.lax.cumsum(x, 1)]
    found += [jax.lax.cumprod(x, 0), jax.lax.cumprod(x, 0, reverse=True)]
    if x.dtype != jnp.complex64:
        found += [
            jax.lax.cummax(x, 0, reverse=True),
            jax.lax.cummin(x, 0),
            jnp.cumsum(x[:, 0])[:, None] + x,
        ]
    return found


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("mesh", "specs"),
    [
        (LINE, ["x", UNSHARDED]),
        (LINE, [UNSHARDED, "x"]),
        (GRID, ["x", "y"]),
        (GRID, ["y", "x"]),
        (GRID, BOTH),
        (GRID, [("y", "x"), UNSHARDED]),
        (create_mesh([("a", 3)], devices=jax.devices()[:3]), ["a", UNSHARDED]),
        (create_mesh([("a", 5)], devices=jax.devices()[:5]), ["a", UNSHARDED]),
    ],
)
def test_scans_of_split_dimensions(mesh: Mesh, specs: list[Any]) -> None:
    rows = 16 if mesh.size == 8 else 30
    run(scans, mesh, [specs], numbers((rows, 8)), out=specs)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [np.int8, np.uint32, np.float16, jnp.bfloat16, np.complex64])
def test_scans_of_any_type(dtype: Any) -> None:
    run(scans, GRID, [BOTH], numbers((16, 8), dtype), out=BOTH)


def test_log_of_sums_of_exponentials() -> None:
    def both_ways(x: Any) -> Any:
        return jax.lax.cumlogsumexp(x, 0), jax.lax.cumlogsumexp(x, 0, reverse=True)

    x = np.random.default_rng(0).normal(size=(4096, 2)).astype(np.float32)
    compiled = run(both_ways, LINE, [ROWS], x, error=1e-5, out=ROWS)  # sums of 4096 floats
    assert sent(compiled) == 2 * 3 * 2 * 4
    run(both_ways, LINE, [ROWS], np.full((16, 2), -np.inf, np.float32), out=ROWS)


def test_nan_and_infinity_reach_all_that_follows() -> None:
    x = numbers((4096, 2))
    x[1000, 0], x[3000, 1] = np.nan, np.inf
    run(lambda a: (jnp.cumsum(a, 0), jax.lax.cummax(a, 0)), LINE, [ROWS], x, out=ROWS)


@pytest.mark.parametrize("mesh", [LINE, GRID])
def test_shards_send_totals_in_steps_of_doubled_distance(mesh: Mesh) -> None:
    specs = BOTH if mesh is GRID else ROWS
    for reverse in (False, True):
        compiled = run(
            lambda x, r=reverse: jax.lax.cumsum(x, 0, reverse=r),
            mesh,
            [specs],
            numbers((4096, 16)),
            out=specs,
        )
        assert sent(compiled) == 3 * 16 * 4
        assert kinds(compiled) == {"shard_permute"}


def test_an_axis_beside_the_scanned_one_divides_the_totals() -> None:
    compiled = run(lambda x: jnp.cumsum(x, 0), GRID, [["y", "x"]], numbers((4096, 16)))
    assert sent(compiled) == 2 * 8 * 4


def test_the_gradient_of_a_scan_is_a_scan() -> None:
    gradient = jax.grad(lambda x: (jnp.cumsum(x, 0) * x).sum())
    compiled = run(gradient, LINE, [ROWS], numbers((4096, 16)), out=ROWS)
    assert sent(compiled) <= 2 * 3 * 16 * 4


def test_an_init_value_that_changes_something_is_met_as_often_as_on_one_device() -> None:
    def scan(x: Any) -> Any:
        return jax.lax.reduce_window(
            x, np.float32(3), jax.lax.add, (x.shape[0], 1), (1, 1), ((x.shape[0] - 1, 0), (0, 0))
        )

    run(scan, LINE, [ROWS], numbers((4096, 2)))


@pytest.mark.sweep
@pytest.mark.parametrize("size", [128, 96, 200])
@pytest.mark.parametrize("reverse", [False, True])
def test_an_associative_scan_moves_one_element_per_shard_and_step(size: int, reverse: bool) -> None:
    def recurrence(a: Any, b: Any) -> Any:
        def join(left: Any, right: Any) -> Any:
            return left[0] * right[0], left[1] * right[0] + right[1]

        return jax.lax.associative_scan(join, (a, b), reverse=reverse)

    a = np.where(np.arange(size * 512).reshape(size, 512) % 5 == 0, -1, 1).astype(np.float32)
    b = numbers((size, 512))
    compiled = run(recurrence, LINE, [ROWS, ROWS], a, b, out=ROWS)
    if size == 128 and not reverse:
        # One row of each of two arrays in each of four steps, then the rest is 8 rows in all.
        assert sent(compiled) <= 2 * (4 + 8) * 512 * 4


def test_an_associative_scan_of_truth_values_and_of_columns() -> None:
    def scan(x: Any) -> Any:
        return jax.lax.associative_scan(jnp.logical_or, x > 1), jax.lax.associative_scan(
            jnp.maximum, x, axis=1
        )

    run(scan, GRID, [["x", "y"]], numbers((32, 16)))


def test_what_is_reversed_before_and_after_is_scanned_from_its_end() -> None:
    """Returns, as `jnp.cumsum(rewards[::-1])[::-1]`: no row changes its place."""

    def returns(x: Any) -> Any:
        both = jnp.cumsum(jnp.flip(x), 0)[::-1, ::-1]
        return jnp.cumsum(x[::-1], 0)[::-1], jnp.cumprod(-x[::-1] * 1, 0)[::-1] + both

    for mesh, specs, rows in ((LINE, ROWS, 48), (GRID, [("x", "y"), UNSHARDED], 45)):
        compiled = run(returns, mesh, [specs], numbers((rows, 3)))
        assert kinds(compiled) == {"shard_permute"}
        assert sent(compiled) == 3 * 3 * 3 * 4  # three scans of log2(8) rows each


def test_what_is_reversed_on_one_side_alone_is_so_still() -> None:
    def sums(x: Any) -> Any:
        found = jnp.cumsum(x[::-1], 0)
        strided = jax.lax.reduce_window(x[::-1], 0.0, jax.lax.add, (3, 1), (2, 1), "SAME")
        return found, found[::-1], jnp.cumsum(x, 0)[::-1], strided[::-1]

    run(sums, LINE, [ROWS], numbers((48, 3)))
