"""Binary searches in a split table, on 8 devices against one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED
from dtensor.dialect.mesh import Mesh
from dtensor.passes.ops.searching import start_of
from dtensor.runtime.client import create_mesh
from tests.py.passes.on_mesh import GRID, LINE, kinds, run, sent

THREE = create_mesh([("x", 3), ("y", 2)])
SPLITS = [(LINE, "x"), (GRID, "y"), (GRID, ("y", "x")), (THREE, "x"), (THREE, ("y", "x"))]


def both(table: Any, queries: Any) -> Any:
    """Left and right of what is equal."""
    return jnp.searchsorted(table, queries), jnp.searchsorted(table, queries, side="right")


def numbers(size: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(-5, 6, size).astype(np.float32)


# Each size on every second mesh, so that each mesh has sizes that it divides, and others.
SEARCHED = [
    (*split, size)
    for i, size in enumerate((24, 48, 4096, 192, 100, 7))
    for k, split in enumerate(SPLITS)
    if (i + k) % 2 == 0
]


@pytest.mark.sweep
@pytest.mark.parametrize(("mesh", "axes", "size"), SEARCHED)
def test_a_split_table_is_searched_where_it_is(mesh: Mesh, axes: Any, size: int) -> None:
    queries = np.concatenate(
        [numbers(20, 1) + 0.5, numbers(21, 2), [np.nan, np.inf, -np.inf, -0.0]]
    )
    queries = queries.astype(np.float32).reshape(5, 9)
    table = numbers(size)
    table[:2] = np.nan, -0.0
    for values in (np.sort(table), table):  # a table that is not sorted gives what it gives on one
        run(both, mesh, [[axes], None], values, queries)


@pytest.mark.sweep
@pytest.mark.parametrize("kind", [np.int32, np.uint8, np.float16, jnp.bfloat16, np.int16])
def test_tables_of_any_type(kind: Any) -> None:
    table = np.sort(np.abs(numbers(192))).astype(kind)
    run(both, LINE, [["x"], None], table, np.abs(numbers(10, 1)).astype(kind))


def test_only_the_ends_of_shards_and_the_places_are_sent() -> None:
    compiled = run(jnp.searchsorted, LINE, [["x"], None], np.sort(numbers(4096)), numbers(64))
    assert kinds(compiled) <= {"all_gather", "all_reduce", "reduce_scatter"}
    assert sent(compiled) <= 7 * 4 + 2 * 7 / 8 * 64 * 4


def test_queries_split_as_the_table_and_otherwise() -> None:
    table, queries = np.sort(numbers(192)), numbers(16, 1).reshape(8, 2)
    run(both, GRID, [["x"], ["y", UNSHARDED]], table, queries)
    run(both, GRID, [["x"], ["x", UNSHARDED]], table, queries)
    run(both, GRID, [[UNSHARDED], [("x", "y"), UNSHARDED]], table, queries)
    run(both, GRID, [["x"], None], table, np.float32(2))
    run(both, GRID, [["x"], None], table, np.zeros((0, 3), np.float32))


def test_a_table_of_which_a_loop_bisects_some_elements() -> None:
    """What jax writes for a longer table is not what is searched here."""

    def first(steps: int) -> Any:
        def search(table: Any, queries: Any) -> Any:
            low = jnp.zeros(queries.shape, jnp.uint32)
            high = jnp.full(queries.shape, 20, jnp.uint32)

            def turn(_: Any, ends: Any) -> Any:
                low, high = ends
                middle = low + (high - low) // 2
                down = queries <= table[middle]
                return jnp.where(down, low, middle), jnp.where(down, middle, high)

            return jax.lax.fori_loop(0, steps, turn, (low, high))[1]

        return search

    table, queries = np.sort(numbers(24)), numbers(9, 1)
    for steps in (5, 9, 3):  # three are too few to come to an end
        run(first(steps), LINE, [["x"], None], table, queries)


@pytest.mark.parametrize(("count", "local"), [(4096, 512), (7, 1), (100, 13), (1, 1), (24, 8)])
def test_the_first_steps_end_in_one_shard(count: int, local: int) -> None:
    start = start_of(count, local)
    inner = len(start.reads)
    for low, high in start.leaves:
        assert low == high or low // local == (high - 1) // local
    assert {*start.down, *start.up} == set(range(1, inner + len(start.leaves)))
    if count == 4096:
        assert sorted(start.reads) == [512 * k for k in range(1, 8)]
        assert start.depth == 3
