"""Windows over what was padded, and gradients of averages: 8 devices against one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.compiler.api import jit
from dtensor.dialect.layout import UNSHARDED, Layout
from tests.py.passes.on_mesh import GRID, LINE, run, sent

Form = Callable[[Any], Any]
KERNEL = np.random.default_rng(1).integers(0, 3, (3, 3, 2, 2)).astype(np.float32)
NUMBERS = ("NHWC", "HWIO", "NHWC")
X = np.random.default_rng(0).integers(0, 4, (2, 64, 16, 2)).astype(np.float32)


def padded(x: Any, value: float = 0) -> Any:
    return jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=value)


def convolution(stride: int) -> Form:
    return lambda x: lax.conv_general_dilated(
        padded(x), jnp.asarray(KERNEL), (stride, stride), "VALID", dimension_numbers=NUMBERS
    )


def sums(size: int, stride: int, padding: str) -> Form:
    def pool(x: Any) -> Any:
        sizes, strides = (1, size, size, 1), (1, stride, stride, 1)
        return lax.reduce_window(x, 0.0, lax.add, sizes, strides, padding)

    return pool


def gradient(form: Form) -> Form:
    return jax.grad(lambda x: jnp.sum(form(x) ** 2))


def largest(x: Any) -> Any:
    sizes, strides = (1, 3, 3, 1), (1, 2, 2, 1)
    return lax.reduce_window(padded(x, -np.inf), -np.inf, lax.max, sizes, strides, "VALID")


FORMS: dict[str, Form] = {
    "convolution": convolution(1),
    "convolution with strides": convolution(2),
    "gradient of the convolution": gradient(convolution(1)),
    "gradient of the convolution with strides": gradient(convolution(2)),
    "largest": largest,
    "gradient of the largest": gradient(largest),
    "sums of padded": lambda x: sums(3, 1, "VALID")(padded(x)),
    "gradient of sums of tiles": gradient(sums(2, 2, "VALID")),
    "gradient of sums": gradient(sums(3, 1, "SAME")),
    "gradient of sums with strides": gradient(sums(3, 2, "SAME")),
    "gradient of sums inside": gradient(sums(3, 1, "VALID")),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", FORMS)
def test_neighbours_exchange_edges(name: str) -> None:
    for mesh, rows in ((LINE, ["x"]), (GRID, ["y", "x"])):
        dims = [UNSHARDED, *rows, *[UNSHARDED] * (3 - len(rows))]
        compiled = run(FORMS[name], mesh, [dims], X)
        assert sent(compiled) <= 4 * X[:, :3].nbytes


@pytest.mark.sweep
@pytest.mark.parametrize("padding", [(-1, 1), (1, -2), (-2, -1)])
@pytest.mark.parametrize("apart", [1, 2, 3])
def test_what_padding_crops_is_not_read(padding: tuple[int, int], apart: int) -> None:
    """XLA for CPU reads beyond small inputs there, on one device too: NumPy says what is right."""
    x = np.random.default_rng(0).integers(-3, 4, (1, 12, 14, 2)).astype(np.float32)
    kernel = np.random.default_rng(1).integers(-3, 4, (6, 2, 2, 3)).astype(np.float32)
    places = np.zeros((1, 12, 13 * apart + 1, 2), np.float32)
    places[:, :, ::apart] = x
    low, high = padding
    wide = np.pad(places, ((0, 0), (0, 0), (max(low, 0), max(high, 0)), (0, 0)))
    wide = wide[:, :, max(-low, 0) : wide.shape[2] - max(-high, 0)]
    windows = np.lib.stride_tricks.sliding_window_view(wide, (6, 2), (1, 2))
    wanted = np.einsum("bhwcij,ijco->bhwo", windows, kernel)

    def convolved(x: Any) -> Any:
        numbers = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(
            x, jnp.asarray(kernel), (1, 1), [(0, 0), padding], (1, apart), dimension_numbers=numbers
        )

    for specs in ([UNSHARDED] * 4, [UNSHARDED, "x", UNSHARDED, UNSHARDED]):
        step = jit(convolved, mesh=GRID, in_layouts=(Layout(specs, GRID),), returns="jax")
        np.testing.assert_array_equal(np.asarray(step(x)), wanted)


def test_gaps_of_one_element_are_none() -> None:
    """XLA took windows over them, and over padding besides, for as many of the one element."""

    def loss(x: Any) -> Any:
        sums = lax.reduce_window(x[:5], 0.0, lax.add, (3, 1), (3, 1), "VALID")
        return jnp.sum(sums[::2] ** 2)

    x = np.arange(14, dtype=np.float32).reshape(7, 2)
    run(jax.grad(loss), LINE, [["x", UNSHARDED]], x)
