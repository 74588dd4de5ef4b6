"""Rows that indices pick from a split table, multiplied: the shards multiply what they own."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.client import create_mesh
from tests.py.passes.on_mesh import GRID, LINE, numbers, run, sent

THREE = create_mesh([("x", 3), ("y", 2)])
WHOLE = None


def picks(count: tuple[int, ...], rows: int) -> Any:
    """Indices, some of them beyond both ends, which the nearest rows stand for."""
    found = np.random.default_rng(1).integers(-2, rows + 2, count)
    return jnp.asarray(found, jnp.int32)


def bag(table: Any, ids: Any, weights: Any) -> Any:
    return jnp.einsum("bl,bld->bd", weights, table.at[ids].get(mode="clip"))


def scaled(table: Any, ids: Any, weights: Any) -> Any:
    return table.at[ids].get(mode="clip") * weights


def experts(table: Any, ids: Any, tokens: Any) -> Any:
    return jnp.einsum("td,tdf->tf", tokens, table.at[ids].get(mode="clip"))


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("mesh", "axes"), [(LINE, "x"), (GRID, "y"), (GRID, ("y", "x")), (THREE, "x")]
)
@pytest.mark.parametrize("rows", [24, 13])
def test_products_are_those_of_one_device(mesh: Mesh, axes: Any, rows: int) -> None:
    table = numbers((rows, 5))
    split = [axes, UNSHARDED]
    run(bag, mesh, [split, WHOLE, WHOLE], table, picks((3, 7), rows), numbers((3, 7)))
    run(scaled, mesh, [split, WHOLE, WHOLE], table, picks((9,), rows), numbers((9, 5)))
    matrices = numbers((rows, 5, 4))
    run(
        experts,
        mesh,
        [[*split, UNSHARDED], WHOLE, WHOLE],
        matrices,
        picks((6,), rows),
        numbers((6, 5)),
    )


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.int32, jnp.complex64])
def test_elements_of_any_type_are_multiplied(dtype: Any) -> None:
    table = numbers((16, 5), dtype)
    run(
        bag,
        LINE,
        [["x", UNSHARDED], WHOLE, WHOLE],
        table,
        picks((3, 7), 16),
        numbers((3, 7), dtype),
    )


def test_infinities_and_nan_are_those_of_one_device() -> None:
    """What multiplies the rows of others must not: zero times infinity is NaN."""
    table, ids = np.array(numbers((16, 4))), jnp.arange(14, dtype=jnp.int32).reshape(2, 7)
    weights = np.array(numbers((2, 7))) + 1
    weights[0, 2], weights[1, 3] = np.inf, np.nan
    table[2], table[9, 1] = [1, -1, np.inf, 2], -np.inf
    split = ["x", UNSHARDED]
    run(bag, LINE, [split, WHOLE, WHOLE], table, ids, weights)
    rows = np.array(numbers((14, 4))) + 1
    rows[2], rows[9, 1] = np.inf, 0
    run(scaled, LINE, [split, WHOLE, WHOLE], table, ids.reshape(-1), rows)


def test_products_are_sent_and_not_rows() -> None:
    split = ["x", UNSHARDED]
    compiled = run(
        bag, LINE, [split, WHOLE, WHOLE], numbers((64, 16)), picks((2, 32), 64), numbers((2, 32))
    )
    assert sent(compiled) == 2 * 7 / 8 * 2 * 16 * 4
    compiled = run(
        experts,
        LINE,
        [["x", UNSHARDED, UNSHARDED], WHOLE, WHOLE],
        numbers((16, 32, 8)),
        picks((3,), 16),
        numbers((3, 32)),
    )
    assert sent(compiled) == 2 * 7 / 8 * 3 * 8 * 4


def decode(query: Any, keys: Any, values: Any, table: Any) -> Any:
    """Attention of one token to caches in pages, 8 positions each, of two heads."""
    batch = table.shape[0]
    keys, values = (pages[table].reshape(batch, -1, 2, 16) for pages in (keys, values))
    weights = jax.nn.softmax(jnp.einsum("bhd,bshd->bhs", query, keys))
    return jnp.einsum("bhs,bshd->bhd", weights, values)


def test_caches_in_split_pages_stay_where_they_are() -> None:
    rng = np.random.default_rng(2)
    query, keys, values = (
        rng.normal(size=shape).astype(np.float32)
        for shape in ((3, 2, 16), (32, 8, 2, 16), (32, 8, 2, 16))
    )
    table = jnp.asarray(rng.permutation(32)[:12].reshape(3, 4), jnp.int32)
    split = ["x", UNSHARDED, UNSHARDED, UNSHARDED]
    compiled = run(
        decode, LINE, [WHOLE, split, split, WHOLE], query, keys, values, table, absolute=1e-6
    )
    scores, results = 3 * 2 * 32 * 4, 3 * 2 * 16 * 4
    assert sent(compiled) <= 2 * 7 / 8 * (scores + results)


def test_gradients_are_those_of_one_device() -> None:
    def loss(table: Any, weights: Any, ids: Any) -> Any:
        return jnp.sum(bag(table, ids, weights) ** 2)

    run(
        jax.grad(loss, (0, 1)),
        LINE,
        [["x", UNSHARDED], WHOLE, WHOLE],
        numbers((24, 5)),
        numbers((3, 7)),
        picks((3, 7), 24),
    )


def test_rows_that_are_not_there_are_nan() -> None:
    """`jnp.take` fills with NaN, which a product or the sum of a bag then is."""
    table, weights = numbers((16, 5)), np.array(numbers((2, 7)))
    ids = picks((2, 7), 16)
    weights[0, 0] = np.inf

    def bag_taken(table: Any, ids: Any, weights: Any) -> Any:
        return jnp.einsum("bl,bld->bd", weights, jnp.take(table, ids, axis=0))

    def scaled_taken(table: Any, ids: Any, weights: Any) -> Any:
        return jnp.take(table, ids, axis=0) * weights[..., None]

    def scores(table: Any, ids: Any, vectors: Any) -> Any:
        return jnp.einsum("bld,bd->lb", jnp.take(table, ids, axis=0), vectors)

    split = ["x", UNSHARDED]
    assert np.isnan(np.asarray(scaled_taken(table, ids, weights))).any()
    run(scaled_taken, LINE, [split, WHOLE, WHOLE], table, ids, weights)
    for function, other, size in ((bag_taken, weights, 2 * 5), (scores, numbers((2, 5)), 7 * 2)):
        compiled = run(
            function, LINE, [split, WHOLE, WHOLE], table, ids, other, out=[UNSHARDED] * 2
        )
        assert sent(compiled) == 2 * 7 / 8 * size * 4


def test_a_product_of_rows_with_a_product_of_the_same_rows() -> None:
    def again(table: Any, ids: Any, others: Any) -> Any:
        rows = jnp.take(table, ids, axis=0, mode="clip")
        return jnp.einsum("bst,blt->bsl", jnp.einsum("bls,blt->bst", rows, others), rows)

    table, ids, others = numbers((40, 3)), picks((2, 5), 40), numbers((2, 5, 3))
    run(again, LINE, [["x", UNSHARDED], WHOLE, WHOLE], table, ids, others)


def zero_beyond(table: Any, ids: Any, others: Any) -> Any:
    return jnp.where((ids >= 0) & (ids < len(table)), table[ids], 0.0) * others


def bound_below(table: Any, ids: Any, others: Any) -> Any:
    rows = jnp.where((ids > 12)[:, None], jnp.asarray(2, table.dtype), table[ids])
    return others * jnp.where((ids < 1)[:, None], rows, jnp.asarray(3, table.dtype))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.int32])
def test_numbers_that_stand_for_rows_are_multiplied(dtype: Any) -> None:
    """A select between a gather and a product comes after it, and selects what they would give."""
    table, ids, others = numbers((16, 5), dtype), picks((14,), 16), np.array(numbers((14, 5)))
    if dtype == jnp.float32:
        others[2], others[3, 1], table = np.inf, np.nan, table.at[4].set(-np.inf)
    given = [["x", UNSHARDED], WHOLE, WHOLE]
    assert len(set(np.asarray(ids) > 12)) == len(set(np.asarray(ids) < 1)) == 2
    run(bound_below, LINE, given, table, ids, jnp.asarray(others, dtype))
    given[0] = ["x"]
    run(zero_beyond, LINE, given, table[:, 0], ids, jnp.asarray(others[:, 1], dtype))


@pytest.mark.parametrize("split", [["x", UNSHARDED], [UNSHARDED, "x"]])
def test_what_each_row_picks_is_weighed(split: list[Any]) -> None:
    """As the loss of a policy has it: what is picked has a dimension of one element, then none."""

    def loss(scores: Any, actions: Any, gains: Any) -> Any:
        picked = jnp.take_along_axis(scores, actions[:, None], axis=1)[:, 0]
        return jnp.mean(picked * gains)

    actions = jnp.arange(16, dtype=jnp.int32) * 3 % 8
    given = [split, [split[0]], [split[0]]]
    run(loss, LINE, given, numbers((16, 8)), actions, numbers((16,)), error=1e-5)


def test_points_between_pixels_are_sent_once() -> None:
    """`map_coordinates` weighs the pixels around each point, and 0 for those beyond the edges."""

    def volume(image: Any, places: Any) -> Any:
        return jax.scipy.ndimage.map_coordinates(image, places, order=1, mode="constant")

    places = np.random.default_rng(0).uniform(-2, 18, (3, 40)).astype(np.float32)
    split = ["x", UNSHARDED, UNSHARDED]
    compiled = run(
        volume, LINE, [split, WHOLE], numbers((16, 16, 16)), places, error=1e-6, absolute=1e-6
    )
    assert sent(compiled) == 2 * 7 / 8 * 40 * 4
