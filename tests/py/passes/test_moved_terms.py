"""Gradients of padded stencils, which add rows at the ends to others, on 8 devices against one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.compiler.api import jit
from dtensor.dialect.layout import UNSHARDED, Layout
from tests.py.passes.on_mesh import GRID, LINE, SLOW
from tests.py.uneven.on_meshes import TILED, check

MODES = ["reflect", "symmetric", "wrap"]
ROWS = Layout(["x", UNSHARDED], LINE)


def padded(mode: str, low: int = 1, high: int = 1) -> Callable[[Any], Any]:
    """A sum of all rows that stand around each one of an array that was padded."""

    def stencil(u: Any) -> Any:
        p, n = jnp.pad(u, ((low, high), (0, 0)), mode=mode), u.shape[0]
        return sum((i + 1) * p[i : i + n] for i in range(low + high + 1) if i != low)

    return stencil


def ends(u: Any) -> Any:
    return jnp.gradient(u, axis=0)


def tiles(u: Any) -> Any:
    """Differences of rows and of columns, of an array that was padded along both."""
    p = jnp.pad(u, 1, mode="reflect")
    rows = p[2:, 2:] + 2 * p[2:, 1:-1] - p[:-2, 2:] - 2 * p[:-2, 1:-1]
    return rows * (p[2:, 2:] - p[1:-1, :-2])


def windows(u: Any) -> Any:
    """Products of each element with those of five rows and columns around it."""
    p, (rows, columns) = jnp.pad(u, 2, mode="reflect"), u.shape
    places = [(i, j) for i in range(5) for j in range(5)]
    return sum((i - j) * p[i : i + rows, j : j + columns] * u for i, j in places)


def longer(u: Any) -> Any:
    """Differences of an array with a row more at each end, which are computed of it in two ways."""
    return jnp.diff(u, axis=0, prepend=u[:1], append=-u[-1:])[1:] * 2 + jnp.roll(u, 2, 0)


def gradient(function: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def pulled_back(u: Any, w: Any) -> Any:
        return jax.vjp(function, u)[1](w)[0]

    return pulled_back


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    """Whole numbers, all sums of which are exact, and zeros of both signs."""
    made = np.random.default_rng(2).integers(-3, 4, shape).astype(np.float32)
    return np.where(made == 1, np.float32(-0.0), made).astype(dtype)


STENCILS = [padded(mode) for mode in MODES]
STENCILS += [padded("reflect", 2, 3), padded("wrap", 1, 2), padded("edge", 0, 1)]
STENCILS += [ends, tiles, windows, longer]


@pytest.mark.parametrize("function", STENCILS)
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_gradients_are_those_of_one_device(function: Callable[[Any], Any], dtype: Any) -> None:
    for mesh, specs in TILED:
        layout = Layout(specs, mesh)
        for rows in (48, 43):
            u, w = numbers(rows, 9, dtype=dtype), numbers(rows, 9, dtype=dtype)[::-1]
            check(gradient(function), u, w, mesh=mesh, in_layouts=layout, out_layouts=layout)


@pytest.mark.parametrize("function", STENCILS)
def test_zeros_have_the_signs_of_one_device(function: Callable[[Any], Any]) -> None:
    def bits(u: Any, w: Any) -> Any:
        return jax.lax.bitcast_convert_type(gradient(function)(u, w), jnp.int32)

    for rows in (48, 43):
        u, w = numbers(rows, 9), numbers(rows, 9)[::-1]
        check(bits, u, w, mesh=LINE, in_layouts=ROWS, out_layouts=ROWS)


@pytest.mark.parametrize("function", STENCILS[:3])
def test_gradients_inside_loops(function: Callable[[Any], Any]) -> None:
    def steps(u: Any) -> Any:
        return jax.lax.scan(lambda v, _: (function(v) - v, None), u, length=2)[0]

    layout = Layout(["y", "x"], GRID)
    for rows in (48, 43):
        u, w = numbers(rows, 9), numbers(rows, 9)[::-1]
        check(gradient(steps), u, w, mesh=GRID, in_layouts=layout, out_layouts=layout)


@pytest.mark.parametrize("function", [*STENCILS[:3], ends])
def test_one_row_each_way_is_sent(function: Callable[[Any], Any]) -> None:
    u = numbers(256, 24)
    step = jit(gradient(function), mesh=LINE, in_layouts=ROWS, out_layouts=ROWS, options=SLOW)
    assert step.lower(u, u).wire_bytes == 2 * 24 * 4


def test_rows_of_many_terms_are_added_before_they_are_sent() -> None:
    """Four rows around a shard, and of sums of products the two next to it and the two behind."""
    u = numbers(256, 24)
    step = jit(gradient(windows), mesh=LINE, in_layouts=ROWS, out_layouts=ROWS, options=SLOW)
    assert step.lower(u, u).wire_bytes <= (4 + 2 * (1 + 2)) * 24 * 4


def test_padding_of_both_dimensions_sends_one_row_each_way() -> None:
    def rows_apart(u: Any) -> Any:
        p = jnp.pad(u, 1, mode="reflect")
        return p[2:, 2:] + 2 * p[2:, 1:-1] - p[:-2, 2:] - 2 * p[:-2, :-2]

    u = numbers(256, 24)
    step = jit(gradient(rows_apart), mesh=LINE, in_layouts=ROWS, out_layouts=ROWS, options=SLOW)
    assert step.lower(u, u).wire_bytes == 2 * 24 * 4
