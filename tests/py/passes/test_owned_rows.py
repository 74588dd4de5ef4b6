"""What is computed of rows that indices pick from a split table, and reduced over the indices."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.client import create_mesh
from tests.py.passes.on_mesh import GRID, LINE, run, sent

THREE = create_mesh([("x", 3), ("y", 2)])
SEQUENCES, PAGES_EACH, PAGE, HEADS, SIZE = 3, 8, 4, 2, 16


def normal(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def indices(rows: int, beyond: int = 0) -> Any:
    """A row of each sequence, some beyond both ends if that is wanted."""
    found = np.random.default_rng(3).integers(-beyond, rows + beyond, (SEQUENCES, PAGES_EACH))
    return found.astype(np.int32)


def joined(pages: Any) -> Any:
    return pages.reshape(SEQUENCES, PAGES_EACH * PAGE, *pages.shape[3:])


def attend(query: Any, keys: Any, values: Any, lengths: Any) -> Any:
    """Of each head's queries, as many as there are."""
    scores = jnp.einsum("bhgd,bshd->bhgs", query, keys, preferred_element_type=jnp.float32)
    is_read = jnp.arange(keys.shape[1]) < lengths[:, None, None, None]
    weights = jax.nn.softmax(jnp.where(is_read, scores, -jnp.inf))
    return jnp.einsum("bhgs,bshd->bhgd", weights, values)


def paged(query: Any, keys: Any, values: Any, table: Any, lengths: Any) -> Any:
    return attend(query, joined(keys[table]), joined(values[table]), lengths)


def paged_by_take(query: Any, keys: Any, values: Any, table: Any, lengths: Any) -> Any:
    keys, values = (jnp.take(pages, table, axis=0) for pages in (keys, values))
    return attend(query, joined(keys), joined(values), lengths)


def side_by_side(query: Any, keys: Any, values: Any, table: Any, lengths: Any) -> Any:
    """Keys and values in one array, the pages behind the heads."""
    pages = jnp.stack([keys, values]).transpose(0, 3, 1, 2, 4)[:, :, table]
    keys, values = pages.transpose(0, 2, 3, 4, 1, 5)
    return attend(query, joined(keys), joined(values), lengths)


ATTENTION = (paged, paged_by_take, side_by_side)
OF_ATTENTION = SEQUENCES * HEADS * 3 * (1 + 1 + SIZE) * 4  # bytes: maxima, sums, results


def arguments(pages: int) -> tuple[Any, ...]:
    query = normal(SEQUENCES, HEADS, 3, SIZE)
    keys, values = (normal(pages, PAGE, HEADS, SIZE) * (k + 1) for k in range(2))
    return query, keys, values, indices(pages), np.array([5, 32, 17], np.int32)


def split(axes: Any, count: int = 4) -> list[Any]:
    return [axes, *[UNSHARDED] * (count - 1)]


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("mesh", "axes", "pages"),
    [(LINE, "x", 40), (GRID, "y", 29), (GRID, ("y", "x"), 40), (THREE, "x", 13)],
)
@pytest.mark.parametrize("form", ATTENTION)
def test_shards_attend_to_their_own_pages(form: Any, mesh: Mesh, axes: Any, pages: int) -> None:
    layouts = [None, split(axes), split(axes), None, None]
    compiled = run(form, mesh, layouts, *arguments(pages), error=1e-5, absolute=1e-6)
    assert sent(compiled) <= 2 * 7 / 8 * OF_ATTENTION


def test_layers_in_a_loop_attend_to_their_own_pages() -> None:
    query, keys, values, *rest = arguments(40)
    keys, values = (np.stack([each, each[::-1]]) for each in (keys, values))

    def layers(query: Any, keys: Any, values: Any, *rest: Any) -> Any:
        def step(query: Any, caches: Any) -> Any:
            return query + paged(query, *caches, *rest), None

        return jax.lax.scan(step, query, (keys, values))[0]

    pages = [UNSHARDED, "x", UNSHARDED, UNSHARDED, UNSHARDED]
    layouts = [None, pages, pages, None, None]
    compiled = run(layers, LINE, layouts, query, keys, values, *rest, error=1e-5, absolute=1e-6)
    assert sent(compiled) == 2 * 2 * 7 / 8 * OF_ATTENTION


def test_what_is_not_finite_stays_in_its_rows() -> None:
    """Pages of others must not make NaN of what is multiplied by their weights of zero."""
    query, keys, values, table, lengths = arguments(40)
    keys[3], keys[4, 1], values[7], values[8, 2] = np.nan, np.inf, np.nan, -np.inf
    layouts = [None, split("x"), split("x"), None, None]
    run(paged, LINE, layouts, query, keys, values, table, lengths, error=1e-5, absolute=1e-6)


def largest(table: Any, ids: Any) -> Any:
    return jnp.max(table[ids], axis=1)


def log_sums(table: Any, ids: Any) -> Any:
    return jax.nn.logsumexp(table[ids], axis=1)


def unit_sums(table: Any, ids: Any) -> Any:
    rows = table[ids]
    return jnp.sum(rows / (1 + jnp.sqrt(jnp.sum(rows * rows, -1, keepdims=True))), axis=1)


def products(table: Any, ids: Any) -> Any:
    return jnp.prod((2 * table[ids]).astype(jnp.int32), axis=1)


def anything(table: Any, ids: Any) -> Any:
    return jnp.any(table[ids] > 2, axis=(1, 2))


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("form", "numbers"),
    [(largest, 12), (log_sums, 2 * 12), (unit_sums, 12), (products, 12), (anything, 1 / 4)],
)
@pytest.mark.parametrize("rows", [40, 21])
def test_reductions_of_picked_rows_are_sent_and_not_rows(
    form: Any, numbers: float, rows: int
) -> None:
    table = normal(rows, 12)
    table[3], table[4, 2], table[5], table[6] = np.nan, np.inf, -0.0, -np.inf
    compiled = run(form, LINE, [split("x", 2), None], table, indices(rows, 50), error=1e-5)
    assert 0 < sent(compiled) <= 2 * 7 / 8 * SEQUENCES * numbers * 4


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int64])
def test_indices_of_any_type_pick_rows(dtype: Any) -> None:
    with jax.enable_x64(True):
        ids = indices(40, 30 if dtype is np.int64 else 0).astype(dtype)
        run(largest, LINE, [split("x", 2), None], normal(40, 12), ids)


@pytest.mark.parametrize("equation", ["skd,tkd->st", "skd,tke->stde", "skd,skd->s", "skd,ske->de"])
def test_products_of_the_rows_of_one_index_with_those_of_others(equation: str) -> None:
    """Where they are of two shards, none has both."""

    def form(keys: Any, values: Any, ids: Any) -> Any:
        return jnp.einsum(equation, keys[ids], values[ids])

    keys, values = np.round(2 * normal(40, 12)), np.round(2 * normal(40, 12)[::-1])
    run(form, LINE, [split("x", 2), split("x", 2), None], keys, values, indices(40, 3))


def test_what_is_pooled_of_neighbours_is_computed_once() -> None:
    """As much is pooled as the table holds: each shard need not compute all that others pick."""

    def pooled(nodes: Any, ids: Any) -> Any:
        rows = nodes[ids]
        return rows.max(1) + rows.mean(1)

    ids = np.random.default_rng(0).integers(0, 400, (400, 5)).astype(np.int32)
    layouts = [split("x", 2), split("x", 2)]
    compiled = run(pooled, LINE, layouts, normal(400, 16), ids, error=1e-5, absolute=1e-6)
    assert compiled.local_flops <= 3 * 400 * 5 * 16 / 8
    assert sent(compiled) <= 7 / 8 * normal(400, 16).nbytes
