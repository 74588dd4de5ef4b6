"""Dimensions that a reshape takes apart, of which blocks do not divide, on many devices and one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED, Layout
from tests.py.uneven.on_meshes import GRID, LINE, TILED, check, gathered, sent

Form = Callable[[Any], Any]


def numbers(shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
    """Whole numbers, all sums of which are exact."""
    return np.random.default_rng(0).integers(-3, 4, shape).astype(dtype)


def largest(x: Any) -> Any:
    return x.reshape(-1, 60).max(1)


def cropped(x: Any) -> Any:
    """The largest of each 60 samples, of which a few are left over."""
    return x[:16380].reshape(-1, 60).max(1)


def pooled(x: Any) -> Any:
    h, w = x.shape
    return x.reshape(h // 2, 2, w // 2, 2).sum((1, 3))


def there_and_back(x: Any) -> Any:
    blocks = x.reshape(-1, 5, x.shape[1])
    return (blocks - blocks.max(1, keepdims=True)).reshape(x.shape)


def turned(x: Any) -> Any:
    return jnp.cumsum(x.reshape(-1, 5, x.shape[1])[::-1], 0)


@pytest.mark.parametrize("function", [pooled, there_and_back, turned])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.complex64])
def test_blocks_are_those_of_one_device(function: Form, dtype: Any) -> None:
    for mesh, specs in TILED:
        layout = Layout(specs, mesh)
        for shape in ((50, 14), (210, 18), (240, 16)):
            if dtype == np.complex64 and function is there_and_back:
                continue  # no order
            check(function, numbers(shape, dtype), mesh=mesh, in_layouts=(layout,))


@pytest.mark.parametrize("function", [pooled, there_and_back, turned])
def test_gradients_are_those_of_one_device(function: Form) -> None:
    for mesh, specs in TILED:
        layout = Layout(specs, mesh)
        step = jax.grad(lambda x: (function(x) ** 2).sum())
        for shape in ((50, 14), (210, 18)):
            check(step, numbers(shape), mesh=mesh, in_layouts=(layout,), out_layouts=layout)


@pytest.mark.parametrize(("function", "count"), [(largest, 16380), (cropped, 16384)])
def test_each_shard_has_whole_blocks(function: Form, count: int) -> None:
    """Of 273 blocks 35 each: the shards, of 2048 samples, fetch up to 7 * 52 of the next."""
    layout = Layout(["x"], LINE)
    compiled = check(function, numbers((count,)), mesh=LINE, in_layouts=(layout,))
    assert sent(compiled) == 7 * 52 * 4
    assert not gathered(compiled)


def test_tiles_are_moved_to_whole_blocks() -> None:
    """Of 63 by 95 elements, whose blocks are of 2 by 2, to 64 by 96."""
    layout = Layout(["y", "x"], GRID)
    compiled = check(pooled, numbers((250, 190)), mesh=GRID, in_layouts=(layout,))
    assert sent(compiled) == (3 * 95 + 64) * 4
    assert not gathered(compiled)


def test_what_is_split_evenly_stays() -> None:
    compiled = check(largest, numbers((16320,)), mesh=LINE, in_layouts=(Layout(["x"], LINE),))
    assert not compiled.collectives
    rows = Layout(["x", UNSHARDED], LINE)
    assert not check(there_and_back, numbers((80, 3)), mesh=LINE, in_layouts=(rows,)).collectives


def boxes(x: Any) -> Any:
    """Sums of boxes of 8 by 8, as differences of sums from the start."""
    sums = jnp.pad(jnp.cumsum(jnp.cumsum(x, 0), 1), ((1, 0), (1, 0)))
    return sums[8:, 8:] - sums[:-8, 8:] - sums[8:, :-8] + sums[:-8, :-8]


@pytest.mark.parametrize("shape", [(250, 190), (252, 188), (250, 188), (256, 190)])
def test_what_is_cut_of_even_columns_is_split_beside_uneven_rows(shape: tuple[int, int]) -> None:
    layout = Layout(["y", "x"], GRID)
    compiled = check(boxes, numbers(shape), mesh=GRID, in_layouts=(layout,))
    assert not gathered(compiled)
    assert sent(compiled) < numbers(shape).nbytes / 16
