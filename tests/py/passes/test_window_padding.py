"""Windows over what was padded, and gradients of averages: 8 devices against one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.dialect.layout import UNSHARDED
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


@pytest.mark.parametrize("name", FORMS)
def test_neighbours_exchange_edges(name: str) -> None:
    for mesh, rows in ((LINE, ["x"]), (GRID, ["y", "x"])):
        dims = [UNSHARDED, *rows, *[UNSHARDED] * (3 - len(rows))]
        compiled = run(FORMS[name], mesh, [dims], X)
        assert sent(compiled) <= 4 * X[:, :3].nbytes
