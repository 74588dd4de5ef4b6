"""Sums and stencils of what rows were added to: the size is awkward, and yet stays split.

Values against one device, with NaN in the padding, and how much each device sends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from tests.py.uneven.on_meshes import FIVE, GRID, LINE, SIX, check, gathered, sent

RANDOM = np.random.default_rng(7)
X = RANDOM.integers(-9, 9, (96, 64)).astype(np.float32)
ROW = 64 * 4
LAYOUTS = [Layout(["x", "y"], GRID), Layout(["x", UNSHARDED], FIVE), Layout(["y", "x"], SIX)]


def box(x: Any, size: int, mode: str) -> Any:
    """Sums of squares of pixels, from sums from the start along both dimensions."""
    before, after = size // 2, size - 1 - size // 2
    around = jnp.pad(x, ((before, after), (before, after)), mode=mode)
    s = jnp.pad(jnp.cumsum(jnp.cumsum(around, 0), 1), ((1, 0), (1, 0)))
    return s[size:, size:] - s[:-size, size:] - s[size:, :-size] + s[:-size, :-size]


def moving(x: Any) -> Any:
    s = jnp.cumsum(jnp.pad(x, ((4, 0), (0, 0))), 0)
    return s[4:] - s[:-4]


def joined(x: Any) -> Any:
    """A few rows more at both ends, of which sums are taken and cropped."""
    more = jnp.concatenate([x[:2] * 3, x, x[-1:] - 1])
    return lax.cumsum(more, 0, reverse=True)[2:-1] + lax.cummax(more, axis=0)[1:-2]


# A program, and how many rows each of 8 devices may send.
PROGRAMS: dict[str, tuple[Callable[[Any], Any], float]] = {
    "sums without the first": (lambda x: jnp.cumsum(x, 0)[5:] * 2, 3 + 5),
    "sums behind zeros": (lambda x: jnp.cumsum(jnp.pad(x, ((5, 0), (0, 0))), 0), 3 + 8),
    "moving sums": (moving, 3 + 2 * 8 + 2),
    "squares of zeros around": (lambda x: box(x, 4, "constant"), 3 + 3 * 8 + 1),
    "squares of edges around": (lambda x: box(x, 4, "edge"), 3 + 3 * 8 + 6),
    "sums of what is joined": (joined, 2 * 3 + 2 * 8),
    "sums of each end": (lambda x: (jnp.cumsum(x, 0)[3:], lax.cumsum(x, 0, reverse=True)[:-3]), 9),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_added_and_cut_off_are_fetched(name: str) -> None:
    function, rows = PROGRAMS[name]
    layout = Layout(["x", UNSHARDED], LINE)
    compiled = check(function, X, mesh=LINE, in_layouts=(layout,))
    assert sent(compiled) <= rows * ROW


# Each program in each layout, the types in turn: each program and each layout has them all.
TYPED = [
    pytest.param(name, ("float32", "int32", "float16")[(i + k) % 3], layout, id=f"{name}-{mesh}")
    for i, name in enumerate(PROGRAMS)
    for k, (layout, mesh) in enumerate(zip(LAYOUTS, ["2x4", "5", "3x2"], strict=True))
]


@pytest.mark.sweep
@pytest.mark.parametrize(("name", "element", "layout"), TYPED)
def test_values_are_those_of_one_device(name: str, element: str, layout: Layout) -> None:
    x = (X[:61, :37] % 7 == 0).astype(element)  # few: float16 counts to 2,048
    check(PROGRAMS[name][0], x, mesh=layout.mesh, in_layouts=(layout,))


def flow(x: Any) -> Any:
    """What flows out of each pixel; nothing does through the edges."""
    v = jnp.pad(x, 1, mode="edge")
    return v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:] - 4 * x


def test_the_gradient_of_edges_sends_the_rows_of_neighbours() -> None:
    def loss(x: Any) -> Any:
        return jnp.sum(flow(x) ** 2)

    for layout, edges in ((Layout(["x", UNSHARDED], LINE), 64), (Layout(["x", "y"], GRID), 64)):
        compiled = check(
            jax.grad(loss), X, mesh=layout.mesh, in_layouts=(layout,), out_layouts=layout
        )
        assert sent(compiled) == 2 * 2 * edges * 4


@pytest.mark.sweep
@pytest.mark.parametrize("layout", LAYOUTS, ids=["2x4", "5", "3x2"])
@pytest.mark.parametrize("element", ["float32", "bfloat16"])
def test_gradients_of_edges_of_any_size(element: str, layout: Layout) -> None:
    x = jnp.asarray(X[:61, :37] % 3, element)

    def loss(x: Any) -> Any:
        return jnp.sum((flow(x) * flow(x)).astype("float32"))

    check(jax.grad(loss), x, mesh=layout.mesh, in_layouts=(layout,))


@pytest.mark.sweep
@pytest.mark.parametrize("mode", ["constant", "edge"])
@pytest.mark.parametrize("mesh", [LINE, SIX])
def test_gradients_of_sums_of_squares(mode: str, mesh: Mesh) -> None:
    def loss(x: Any) -> Any:
        return jnp.sum(box(x, 4, mode) * jnp.arange(64.0))

    layout = Layout(["x", UNSHARDED], mesh)
    compiled = check(jax.grad(loss), X, mesh=mesh, in_layouts=(layout,), out_layouts=layout)
    assert mode == "edge" or not gathered(compiled)


@pytest.mark.parametrize("size", [1, 3, 6])
@pytest.mark.parametrize(("low", "high"), [(-2, 8), (-7, 9), (2, -1), (8, -7), (-1, 3), (3, -3)])
def test_padding_may_take_the_place_of_all_elements(size: int, low: int, high: int) -> None:
    if low + size + high < 0:
        return
    x = np.arange(1, 2 * size + 1, dtype=np.float32).reshape(2, size)
    for axes in ("x", "y", ("y", "x")):
        check(
            lambda x: lax.pad(x * 2, jnp.float32(1.5), ((0, 0, 0), (low, high, 0))) + 1,
            x,
            in_layouts=Layout([UNSHARDED, axes], GRID),
        )
