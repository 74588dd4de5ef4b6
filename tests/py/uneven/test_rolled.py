"""Rolls along dimensions that their axes do not divide: no more is sent than of those they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.dialect.layout import UNSHARDED, Layout
from tests.py.passes.on_mesh import run
from tests.py.uneven.on_meshes import GRID, LINE, TILED, check, sent

Form = Callable[..., Any]


def numbers(shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
    """Whole numbers, all sums of which are exact."""
    return np.random.default_rng(0).integers(0, 4, shape).astype(dtype)


def forward(x: Any) -> Any:
    return jnp.roll(x, 1, 0)


def several(x: Any) -> Any:
    return sum(k * jnp.roll(x, k, 0) for k in (1, 2, 3, 4))


def heat(x: Any) -> Any:
    return sum(jnp.roll(x, k, d) for k in (1, -1) for d in (0, 1)) - 4 * x


def corners(x: Any) -> Any:
    return sum((3 * i + j) * jnp.roll(x, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1))


def mixed(x: Any) -> Any:
    """Rolls, and what moves as they do without going round."""
    shifted = jnp.pad(x[:-1], ((1, 0), (0, 0)))
    return jnp.roll(x, 1, 0) * 2 + shifted * jnp.roll(x, 3, 0) + jnp.roll(x[::-1], 1, 0)


FORMS = [forward, several, heat, corners, mixed]


@pytest.mark.parametrize("function", FORMS)
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.complex64])
def test_rolls_are_those_of_one_device(function: Form, dtype: Any) -> None:
    for mesh, specs in TILED:
        layout = Layout(specs, mesh)
        for shape in ((43, 9), (25, 14), (48, 16)):
            check(function, numbers(shape, dtype), mesh=mesh, in_layouts=(layout,))


@pytest.mark.parametrize("function", FORMS[1:])
def test_gradients_and_loops(function: Form) -> None:
    def steps(x: Any) -> Any:
        return lax.fori_loop(0, 2, lambda _, v: function(v) % 5, x)

    for mesh, specs in TILED:
        layout = Layout(specs, mesh)
        x = numbers((43, 9))
        check(steps, x, mesh=mesh, in_layouts=(layout,), out_layouts=layout)
        step = jax.grad(lambda x, w: (function(x) * w).sum())
        check(step, x, x[::-1], mesh=mesh, in_layouts=layout, out_layouts=layout)


@pytest.mark.parametrize("rows", [1000, 1001])
@pytest.mark.parametrize(
    ("function", "count"), [(forward, 1), (several, 4), (heat, 2), (corners, 2)]
)
def test_as_many_rows_are_sent_as_of_even_ones(function: Form, count: int, rows: int) -> None:
    layout = Layout(["x", UNSHARDED], LINE)
    compiled = check(function, numbers((rows, 24)), mesh=LINE, in_layouts=(layout,))
    assert sent(compiled) == count * 24 * 4


def test_large_rows_go_in_one_place_too() -> None:
    layout = Layout(["x", UNSHARDED], LINE)
    compiled = check(forward, numbers((15, 40000)), mesh=LINE, in_layouts=(layout,))
    assert sent(compiled) == 40000 * 4


def test_corners_of_uneven_tiles_go_along() -> None:
    uneven, even = (
        run(corners, GRID, [["y", "x"]], numbers(shape)).wire_bytes
        for shape in ((250, 189), (252, 190))
    )
    assert uneven <= 1.25 * even
