"""Blocks of rows one behind the other, where the rows do not divide: `jnp.concatenate([x, x])`.

Values against one device, with NaN in the padding; nothing is put together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED, Layout
from tests.py.uneven.on_meshes import FIVE, GRID, LINE, SIX, check, cuts, gathered, sent

RANDOM = np.random.default_rng(7)
ROWS, WIDTH, WORDS = 11, 3, 7
X, Y = RANDOM.normal(size=(2, ROWS, WIDTH)).astype(np.float32)
IMAGES = RANDOM.normal(size=(ROWS, 6, 5, 2)).astype(np.float32)
KERNEL = RANDOM.normal(size=(3, 3, 2, 2)).astype(np.float32)
UP = RANDOM.normal(size=(WIDTH, WORDS)).astype(np.float32)
SCALAR = 4  # bytes


def guided(x: Any, text: Any) -> Any:
    """A sampler, each of whose steps is computed with a text and without one."""

    def step(x: Any, time: Any) -> tuple[Any, Any]:
        both = jnp.concatenate([x, x])
        texts = jnp.concatenate([text, jnp.zeros_like(text)])
        times = jnp.full((len(both),), time)
        shifts = times[:, None] * jnp.arange(1.0, 1 + WORDS)
        noise = jnp.tanh(both @ UP + texts @ UP + shifts) @ UP.T
        with_text, without = jnp.split(noise, 2)
        return x - 0.1 * (without + 3 * (with_text - without)), None

    return jax.lax.scan(step, x, jnp.linspace(1.0, 0.0, 3))[0]


def contrastive(x: Any, y: Any) -> Any:
    """Of pairs, each is to be near the other and far from all others."""
    views = jnp.tanh(jnp.concatenate([x, y]) @ UP)
    views = views / jnp.linalg.norm(views, axis=-1, keepdims=True)
    first, second = views[: len(x)], views[len(x) :]
    alike = (views * jnp.concatenate([second, first])).sum(-1)
    others = jnp.exp(views @ views.T) * (1 - jnp.eye(2 * len(x)))
    return (jnp.log(others.sum(-1)) - alike).mean()


def triplets(x: Any, y: Any) -> Any:
    """Three blocks, of which two are compared."""
    found = jnp.concatenate([x, y, x * y]) @ UP
    one, same, other = found[:ROWS], found[ROWS : 2 * ROWS], found[2 * ROWS :]
    margin = ((one - same) ** 2).sum(-1) - ((one - other) ** 2).sum(-1)
    return jax.nn.relu(margin + 1).sum()


def blocks_of_blocks(x: Any, y: Any) -> Any:
    """Two of three blocks are kept as such, and put in front of others."""
    kept = jnp.concatenate([x, y, x + y])[ROWS:] * 2
    return jnp.tanh(jnp.concatenate([kept, jnp.ones_like(kept)], -1)).sum(0)


def convolved(x: Any) -> Any:
    """A convolution knows one dimension of images."""
    both = jnp.concatenate([x, -x])
    found = jax.lax.conv_general_dilated(
        both, jnp.asarray(KERNEL), (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    one, other = jnp.split(jnp.cumsum(jnp.tanh(found), 1), 2)
    return one * 2 - other


def convolved_by(kernel: Any, x: Any) -> Any:
    both = jnp.concatenate([x, -x])
    found = jax.lax.conv_general_dilated(
        both, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return (jnp.tanh(found) ** 2).sum()


def resized(x: Any) -> Any:
    """Rows of pixels are read at places, and those of the gradient added there."""
    both = jnp.tanh(jnp.concatenate([x, -x]))
    larger = jax.image.resize(both, (2 * ROWS, 9, 7, 2), "nearest")
    return (larger**2).sum((1, 2, 3))[:ROWS]


def looked_up(x: Any, words: Any) -> Any:
    """Each row has a place of its own."""
    rows = jnp.tanh(jnp.concatenate([x, 2 * x]) @ UP)
    found = jnp.take_along_axis(rows, jnp.concatenate([words, words])[:, None], 1)[:, 0]
    return found[:ROWS] - found[ROWS:]


TEXT = RANDOM.normal(size=(ROWS, WIDTH)).astype(np.float32)
PLACES = RANDOM.integers(0, WORDS, ROWS).astype(np.int32)
CASES: list[tuple[Callable[..., Any], tuple[Any, ...], int]] = [
    (guided, (X, TEXT), 0),
    (triplets, (X, Y), 1),
    (jax.grad(triplets, (0, 1)), (X, Y), 0),
    (blocks_of_blocks, (X, Y), 2 * WIDTH),
    (convolved, (IMAGES,), 0),
    (lambda x: jax.grad(convolved_by)(jnp.asarray(KERNEL), x), (IMAGES,), KERNEL.size),
    (looked_up, (X, PLACES), 0),
    (resized, (IMAGES,), 0),
    (jax.grad(lambda x: resized(x).sum()), (IMAGES,), 0),
]


@pytest.mark.sweep
@pytest.mark.parametrize(("function", "values", "scalars"), CASES)
@pytest.mark.parametrize(
    "rows",
    [Layout(["x"], LINE), Layout(["x"], SIX), Layout(["x"], FIVE), Layout([("y", "x")], GRID)],
)
def test_nothing_is_put_together(
    function: Callable[..., Any], values: tuple[Any, ...], scalars: int, rows: Layout
) -> None:
    mesh, (dim,) = rows.mesh, rows.dims
    layouts = tuple(
        [Layout.of([dim, *Layout.replicated(mesh, v.ndim - 1).dims], mesh) for v in values]
    )
    compiled = check(function, *values, mesh=mesh, in_layouts=layouts, error=1e-4, absolute=1e-4)
    assert not gathered(compiled)
    assert not cuts(compiled)
    assert sent(compiled) <= 2 * scalars * SCALAR


def test_all_pairs_of_two_blocks() -> None:
    """One side of the product has to be everywhere, once."""
    layouts = Layout(["x", UNSHARDED], LINE), Layout(["x", UNSHARDED], LINE)
    compiled = check(
        jax.value_and_grad(contrastive, (0, 1)),
        X,
        Y,
        mesh=LINE,
        in_layouts=layouts,
        error=1e-4,
        absolute=1e-5,
    )
    assert not cuts(compiled)
    assert sent(compiled) <= 3 * 2 * 16 * WORDS * SCALAR


def test_blocks_that_are_returned_are_put_together_alone() -> None:
    layouts = Layout(["x", UNSHARDED], LINE), Layout(["x", UNSHARDED], LINE)

    def both(x: Any, y: Any) -> Any:
        return jnp.concatenate([x, y]), (jnp.concatenate([x, y]) @ UP).sum()

    compiled = check(both, X, Y, mesh=LINE, in_layouts=layouts, error=1e-4, absolute=1e-4)
    assert sent(compiled) <= 2 * 16 * WIDTH * SCALAR


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [np.int8, jnp.bfloat16, np.complex64, np.bool_])
@pytest.mark.parametrize("count", [2, 3])
def test_types(dtype: Any, count: int) -> None:
    x = RANDOM.integers(0, 2, (13, 4)).astype(dtype)

    def swapped(x: Any) -> Any:
        every = jnp.concatenate([x, *[jnp.flip(x, 1)] * (count - 1)])
        return jnp.where(every == every, every, ~every if dtype == np.bool_ else -every)[-13:]

    compiled = check(swapped, x, in_layouts=(Layout([("x", "y"), UNSHARDED], GRID),))
    assert not gathered(compiled)
    assert not cuts(compiled)
