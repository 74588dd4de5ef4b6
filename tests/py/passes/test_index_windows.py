"""Windows of several rows at computed places of a split dimension, on a mesh against one device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.dialect.layout import UNSHARDED
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.client import create_mesh
from tests.py.passes.on_mesh import GRID, LINE, run, sent

FIVE, UNLIKE = create_mesh([("x", 5)]), create_mesh([("x", 3), ("y", 2)])
MESHES = [(LINE, [None, "x"]), (GRID, ["x", "y"]), (UNLIKE, ["y", "x"]), (FIVE, [None, "x"])]
# Every mesh with numbers, every other element type on one mesh.
EACH_ONCE = [
    *[(*case, np.float32) for case in MESHES],
    *[(*MESHES[k], t) for k, t in enumerate([jnp.bfloat16, np.int8, np.bool_, np.complex64])],
]
PLACES = np.array([[0, 3], [5, 37], [-2, 12], [38, 100]], np.int32)  # some beyond either end

Mode = lax.GatherScatterMode


def read(rows: int, mode: Any) -> Callable[[Any, Any], Any]:
    """A window of `rows` rows per batch and place."""
    numbers = lax.GatherDimensionNumbers((1, 2), (), (0,))

    def one(cache: Any, at: Any) -> Any:
        sizes = (rows, cache.shape[1])
        return lax.gather(cache, at[:, None], numbers, sizes, mode=mode)

    return jax.vmap(one)


def write(scatter: Any, mode: Any) -> Callable[[Any, Any, Any], Any]:
    """What `read` reads, written; a window that is not all inside is dropped, or moved inside."""
    numbers = lax.ScatterDimensionNumbers((1, 2), (), (0,))

    def one(cache: Any, at: Any, new: Any) -> Any:
        return scatter(cache, at[:, None], new, numbers, mode=mode)

    return jax.vmap(one)


def values(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(-9, 9, shape).astype(dtype)


@pytest.mark.sweep
@pytest.mark.parametrize(("mesh", "specs", "dtype"), EACH_ONCE)
def test_windows_across_shards_are_read(mesh: Mesh, specs: list[Any], dtype: Any) -> None:
    given = [[*(s or UNSHARDED for s in specs), UNSHARDED], None]
    for size in (40, 42):
        cache = values((4, size, 3), dtype)
        for rows, mode in ((2, Mode.CLIP), (9, Mode.FILL_OR_DROP)):
            run(read(rows, mode), mesh, given, cache, PLACES)


@pytest.mark.sweep
@pytest.mark.parametrize(("mesh", "specs", "dtype"), EACH_ONCE)
def test_windows_across_shards_are_written(mesh: Mesh, specs: list[Any], dtype: Any) -> None:
    given = [[*(s or UNSHARDED for s in specs), UNSHARDED], None, None]
    walks = [(42, 2, Mode.CLIP), (42, 9, Mode.FILL_OR_DROP)]
    if dtype is np.float32:
        walks += [(40, 3, Mode.FILL_OR_DROP), (40, 9, Mode.FILL_OR_DROP)]
    for size, rows, mode in walks:
        cache, new = values((4, size, 3), dtype), values((4, 2, rows, 3), dtype)
        run(write(lax.scatter, mode), mesh, given, cache, PLACES, new)
        if dtype is not np.bool_:
            run(write(lax.scatter_add, mode), mesh, given, cache, PLACES, new)


@pytest.mark.parametrize("element", [np.uint8, np.int8, np.uint32])
def test_a_window_across_the_true_end_is_dropped_in_any_index_type(element: Any) -> None:
    places = np.array([[0, 33], [34, 40], [35, 120], [30, 7]]).astype(element)
    cache, new = values((4, 42, 3), np.float32), values((4, 2, 8, 3), np.float32)
    for mode in (Mode.CLIP, Mode.FILL_OR_DROP):
        specs = [UNSHARDED, "x", UNSHARDED]
        run(write(lax.scatter_add, mode), LINE, [specs, None, None], cache, places, new)


@pytest.mark.parametrize(("mesh", "specs"), MESHES)
def test_windows_of_two_split_dimensions(mesh: Mesh, specs: list[Any]) -> None:
    def step(cache: Any, at: Any, new: Any) -> Any:
        cache = jax.vmap(lambda c, i, u: lax.dynamic_update_slice(c, u, (i[0], 1, i[1])))(
            cache, at, new
        )
        return cache, jax.vmap(lambda c, i: lax.dynamic_slice(c, (i[1], 0, i[0]), (4, 3, 2)))(
            cache, at
        )

    layout = [UNSHARDED, specs[1], UNSHARDED, specs[0] or UNSHARDED]
    cache, new = values((4, 24, 3, 12), np.float32), values((4, 5, 2, 7), np.float32)
    at = np.array([[0, 1], [3, 8], [17, -4], [-30, 40]], np.int32)
    run(step, mesh, [layout, None, None], cache, at, new)


@pytest.mark.sweep
@pytest.mark.parametrize("size", [40, 42])
@pytest.mark.parametrize(("mesh", "specs"), MESHES)
def test_an_update_of_nothing_changes_nothing(mesh: Mesh, specs: list[Any], size: int) -> None:
    """The empty window is longer than a shard along another dimension."""

    def step(cache: Any, at: Any) -> Any:
        rows = lax.dynamic_update_slice(cache, cache[:, :-1, :0], (at, at, at))
        return rows + lax.dynamic_update_slice(rows, cache[:0, 1:], (0, 1, 0))

    layout = [*(axis or UNSHARDED for axis in specs), UNSHARDED]
    run(step, mesh, [layout, None], values((4, size, 3), np.float32), np.int32(1))


@pytest.mark.sweep
@pytest.mark.parametrize("rows", [2, 4, 5, 16])
def test_rows_appended_to_a_cache_at_one_place(rows: int) -> None:
    """Fewer than a shard has, as many, and more."""

    def step(cache: Any, new: Any, at: Any) -> Any:
        return lax.dynamic_update_slice_in_dim(cache, new, at, 0)

    for size, mesh, axes in (
        (32, LINE, "x"),
        (31, LINE, "x"),
        (32, GRID, ("y", "x")),
        (30, UNLIKE, "x"),
    ):
        cache, new = values((size, 3), np.float32), values((rows, 3), np.float32)
        for place in (-3, 0, 3, 13, 30, 99):
            run(step, mesh, [[axes, UNSHARDED], None, None], cache, new, np.int32(place))


def test_a_chunk_per_sequence_is_appended_where_it_belongs_and_its_gradient_too() -> None:
    def append(cache: Any, new: Any, at: Any) -> Any:
        def one(rows: Any, chunk: Any, place: Any) -> Any:
            return lax.dynamic_update_slice_in_dim(rows, chunk, place, 0)

        return jax.vmap(one)(cache, new, at)

    cache, new = values((4, 64, 3), np.float32), values((4, 8, 3), np.float32)
    given, at = [[UNSHARDED, "x", UNSHARDED], None, None], np.array([0, 3, 21, 60], np.int32)
    assert sent(run(append, LINE, given, cache, new, at)) == 0

    def loss(cache: Any, new: Any, at: Any) -> Any:
        return jnp.sum(append(cache, new, at) ** 2)

    # The gradient of what is appended: one all_reduce of it, and one of the loss.
    found = run(jax.value_and_grad(loss, 1), LINE, given, cache, new, at)
    assert sent(found) == 2 * 7 / 8 * (4 * 8 * 3 + 1) * 4
