"""Resizes of images along a split dimension: rows beside a shard are sent, and a row of counts.

Values against one device, those of images with infinities too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED, Layout
from tests.py.uneven.on_meshes import FIVE, GRID, LINE, SIX, check, sent

RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(128, 96)).astype(np.float32)
ROW = 96 * 4
LAYOUTS = [Layout(["x", "y"], GRID), Layout(["x", UNSHARDED], FIVE), Layout(["y", "x"], SIX)]


def resized(
    rows: int, columns: int, method: str = "bilinear", **options: Any
) -> Callable[..., Any]:
    return lambda x: jax.image.resize(x, (rows, columns), method, **options)


def gradient(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return jax.grad(lambda x: jnp.sum(function(x) ** 2))


def sent_by_rows(function: Callable[[Any], Any], x: Any, absolute: float = 1e-4) -> float:
    """What a program of rows of 8 devices sends, which gives what one device does."""
    layout = Layout(["x", UNSHARDED], LINE)
    how = partial(check, mesh=LINE, in_layouts=(layout,), out_layouts=layout)
    return sent(how(function, x, error=1e-5, absolute=absolute))


COUNTS = 2 * 7 / 8 / 4  # of a row, of a byte each

# A program, and how many rows each of 8 devices may send besides those of the counts.
PROGRAMS: dict[str, tuple[Callable[[Any], Any], float]] = {
    "twice as many rows": (resized(256, 96), 2),
    "twice as many rows and columns": (resized(256, 192), 2),
    "half of the rows": (resized(64, 48), 2),
    "half of the rows, of two each": (resized(64, 48, antialias=False), 0),
    "three halves of the rows": (resized(192, 96), 2),
    "twice as many, of four each": (resized(256, 96, "cubic"), 6),
    "half of the rows, by sines": (resized(64, 96, "lanczos3"), 12),
    "the gradient of twice as many": (gradient(resized(256, 96)), 4 + COUNTS),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_beside_a_shard_are_sent(name: str) -> None:
    function, rows = PROGRAMS[name]
    layout = Layout(["x", UNSHARDED], LINE)
    compiled = check(function, X, mesh=LINE, in_layouts=(layout,), error=1e-5, absolute=1e-5)
    assert sent(compiled) <= (rows + COUNTS) * ROW


SIZES = [(90, 60), (60, 24), (45, 30)]
# Values and gradients of each method and size in one layout each, in turn: each method has all of
# them, and so has each size.
RESIZED = [
    pytest.param(method, size, LAYOUTS[(i + j + is_gradient) % 3], is_gradient)
    for i, method in enumerate(["bilinear", "cubic", "lanczos3"])
    for j, size in enumerate(SIZES)
    for is_gradient in (False, True)
]


@pytest.mark.sweep
@pytest.mark.parametrize(("method", "size", "layout", "is_gradient"), RESIZED)
def test_values_are_those_of_one_device(
    method: str, size: tuple[int, int], layout: Layout, is_gradient: bool
) -> None:
    x, function = X[:60, :48], resized(size[0], size[1], method)
    # Positions up to 90 in float32 are rounded to 4e-6, and weights of a sum of squares up to 9
    # with them: one device is as far from the result in float64.
    function, absolute = (gradient(function), 4e-5) if is_gradient else (function, 1e-5)
    check(function, x, mesh=layout.mesh, in_layouts=(layout,), error=1e-5, absolute=absolute)


# Rows of an image and of what it becomes, of which 8 devices do not divide some.
UNEVEN = [(124, 248), (180, 360), (248, 124), (100, 150), (120, 180)]


@pytest.mark.parametrize(("rows", "others"), UNEVEN)
@pytest.mark.parametrize("number", [1, np.inf, np.nan])
def test_gradients_of_uneven_images(rows: int, others: int, number: float) -> None:
    x = RANDOM.normal(size=(rows, 12)).astype(np.float32)
    x[rows // 3, 2] = x[-1, 5] = x[-2, 7] = number
    sends = sent_by_rows(gradient(resized(others, 12)), x, absolute=1e-5)
    if others == 2 * rows:
        # Two rows each way, and two of counts, of a byte or two each.
        assert sends <= (4 + 2 * 2 * 7 / 8 / 2) * 12 * 4


# Rows that have few blocks in common with what they become, or none, and how many rows are sent.
IN_SHARDS = [(63, 125, 4, 6), (125, 63, 3, 3), (100, 60, 4, 4), (60, 100, 5, 7), (172, 344, 4, 2)]


@pytest.mark.sweep
@pytest.mark.parametrize(("rows", "others", "there", "back"), IN_SHARDS)
@pytest.mark.parametrize("number", [1, np.inf, np.nan])
def test_each_shard_makes_its_rows_of_those_near_it(
    rows: int, others: int, there: int, back: int, number: float
) -> None:
    x = RANDOM.normal(size=(rows, 12)).astype(np.float32)
    x[rows // 3, 2] = x[-1, 5] = x[-2, 7] = number
    function = resized(others, 12)
    bounds = (function, there + COUNTS), (gradient(function), there + back + 2 * COUNTS)
    for program, most in bounds:
        assert sent_by_rows(program, x) <= most * 12 * 4


def pooled(x: Any) -> Any:
    return jax.lax.reduce_window(x, 0.0, jax.lax.add, (2, 1), (2, 1), "VALID")


def convolved(x: Any, stride: int = 2, padding: str = "SAME") -> Any:
    numbers = ("NWC", "WIO", "NWC")
    kernel = jnp.linspace(-1, 1, 432).reshape(3, 12, 12)
    return jax.lax.conv_general_dilated(
        x[None], kernel, (stride,), padding, dimension_numbers=numbers
    )[0]


def back(part: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: x - jax.image.resize(part(x), x.shape, "linear")


def twice(padding: str) -> Callable[[Any], Any]:
    return lambda x: jax.image.resize(convolved(x, 1, padding), (2 * len(x), 12), "linear")


# How many rows are sent of 348, which 8 devices do not divide, and of 344, which they do: then
# shards of 22 rows of 172 lie up to 7 rows further on than those of 43 of 344.
STEPS: dict[str, tuple[Callable[[Any], Any], float, float]] = {
    "every second row and back": (back(lambda x: jnp.tanh(x[::2])), 2, 11),
    "sums of two and back": (back(pooled), 2, 11),
    "a convolution of every second and back": (back(convolved), 3, 12),
    "twice as many of what is convolved": (twice("SAME"), 6, 4),
    "twice as many but for the ends": (twice("VALID"), 8, 6),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("rows", [348, 344])
def test_what_is_read_in_steps_stays_split(name: str, rows: int) -> None:
    function, uneven, even = STEPS[name]
    x = RANDOM.normal(size=(rows, 12)).astype(np.float32)
    assert sent_by_rows(function, x) <= ((even if rows == 344 else uneven) + 2 * COUNTS) * 12 * 4


def near(count: int, reach: int) -> Any:
    """A matrix whose elements are weighted by how near they are to the diagonal."""
    apart = jnp.arange(count)[:, None] - jnp.arange(count)
    return jnp.where(jnp.abs(apart) <= reach, 2.0 + apart, 0.0)


def test_finite_differences_by_matrices_on_either_side() -> None:
    layout = Layout(["x", "y"], GRID)

    def function(x: Any) -> Any:
        second = jnp.eye(128, k=1) - 2 * jnp.eye(128) + jnp.eye(128, k=-1)
        both = jnp.einsum("ij,jk,kl->il", second, x, near(96, 2))
        return both, near(128, 1).T @ x[:, 0], jnp.einsum("ij,kj->ki", x, near(96, 3)), x.T @ second

    compiled = check(function, X, mesh=GRID, in_layouts=(layout,), error=1e-5, absolute=1e-4)
    assert sent(compiled) <= 8192


@pytest.mark.sweep
@pytest.mark.parametrize("element", ["float32", "float16", "bfloat16"])
def test_batches_of_any_floats(element: str) -> None:
    x = jnp.asarray(RANDOM.normal(size=(2, 64, 12, 3)), element)
    layout = Layout([UNSHARDED, "x", "y", UNSHARDED], GRID)

    def function(x: Any) -> Any:
        return jax.image.resize(x, (2, 128, 24, 3), "bilinear").astype("float32")

    check(function, x, mesh=GRID, in_layouts=(layout,), error=1e-2, absolute=1e-2)


@pytest.mark.parametrize("element", ["float16", "bfloat16"])
def test_rows_of_sixteen_bits_beside_a_shard_are_sent(element: str) -> None:
    """Their weights are computed in 32 bits, and rounded."""
    x, layout = jnp.asarray(X, element), Layout(["x", UNSHARDED], LINE)
    compiled = check(
        lambda x: resized(64, 96)(x).astype("float32"),
        x,
        mesh=LINE,
        in_layouts=(layout,),
        error=1e-2,
        absolute=1e-2,
    )
    assert sent(compiled) <= (1 + COUNTS) * ROW  # half as long as those of 32 bits


def test_infinities_reach_what_they_reach_on_one_device() -> None:
    x = X.copy()
    x[40, 3], x[70, 5], x[71, 5], x[9, 7], x[100, 7] = np.inf, np.nan, 1, -np.inf, np.inf
    x[:, 9], x[3:125, 11], x[15:17, 13], x[16:32, 15] = np.inf, np.nan, -np.inf, np.inf
    layout = Layout(["x", UNSHARDED], LINE)
    for function in (resized(256, 96), resized(64, 96), gradient(resized(256, 96))):
        check(function, x, mesh=LINE, in_layouts=(layout,), error=1e-5, absolute=1e-5)


def test_a_matrix_that_is_not_of_a_band_is_multiplied_with_all_of_it() -> None:
    def function(x: Any) -> Any:
        n = jnp.arange(128.0)
        return jnp.cos(n[:, None] * n) @ x + jnp.tri(128) @ x + jnp.eye(128)[::-1] @ x

    layout = Layout(["x", UNSHARDED], LINE)
    check(function, X, mesh=LINE, in_layouts=(layout,), error=1e-3, absolute=1e-3)


def test_a_blur_by_a_matrix_of_exponentials() -> None:
    layout = Layout(["x", UNSHARDED], LINE)

    def blurred(x: Any) -> Any:
        apart = (jnp.arange(128.0)[:, None] - jnp.arange(128.0)) / 2
        weights = jnp.where(jnp.abs(apart) <= 2, jnp.exp(-(apart**2)), 0.0)
        return weights / weights.sum(1, keepdims=True) @ x

    compiled = check(blurred, X, mesh=LINE, in_layouts=(layout,), error=1e-5, absolute=1e-5)
    assert sent(compiled) <= (8 + COUNTS) * ROW
    # Where a sine decides, rounding might: what is not known stays as it was.
    decided = lambda x: jnp.where(jnp.sin(jnp.pi * near(128, 2)) > 1e-7, 1.0, 0.0) @ x  # noqa: E731
    assert sent(check(decided, X, mesh=LINE, in_layouts=(layout,), error=1e-5)) > 20 * ROW
