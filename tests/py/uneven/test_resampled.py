"""Images made smaller or larger along a split dimension, and what reads them, on 8 and on one.

What is known to be split is so across what walks in steps: rows beside a shard are sent, as of the
image that was given.
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
from tests.py.uneven.on_meshes import FIVE, GRID, LINE, SIX, check, sent

IMAGE = np.random.default_rng(0).normal(size=(1, 128, 60, 2)).astype(np.float32)
ROW = 60 * 2 * 4
Form = Callable[[Any], Any]


def convolved(size: int, step: int = 1, padding: Any = "SAME") -> Form:
    random = np.random.default_rng(1).normal(size=(size, size, 2, 2))
    kernel = jnp.asarray(random / size, np.float32)
    names = ("NHWC", "HWIO", "NHWC")
    return lambda x: lax.conv_general_dilated(
        x, kernel, (step, step), padding, dimension_numbers=names
    )


def enlarged(x: Any, method: str = "bilinear") -> Any:
    b, h, w, c = x.shape
    return jax.image.resize(x, (b, 2 * h, 2 * w, c), method)


def pooled(x: Any) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def with_edges(x: Any) -> Any:
    padded = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
    return convolved(3, padding="VALID")(padded)


RESAMPLED: dict[str, Form] = {
    "strided": convolved(3, 2),
    "patches": convolved(2, 2),
    "pooled": pooled,
    "every second": lambda x: x[:, ::2, ::2],
    "nearest": lambda x: enlarged(x, "nearest"),
    "transposed": lambda x: lax.conv_transpose(x, jnp.ones((4, 4, 2, 2)), (2, 2), "SAME"),
}
READ: dict[str, Form] = {"enlarged": enlarged, "with edges": with_edges}


def program(resampled: str, read: str, is_gradient: bool) -> Form:
    made, seen = RESAMPLED[resampled], READ[read]
    if not is_gradient:
        return lambda x: seen(made(x))
    return jax.grad(lambda x: jnp.sum(seen(made(x)) ** 2) / 8)


@pytest.mark.sweep
@pytest.mark.parametrize("is_gradient", [False, True], ids=["value", "gradient"])
@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize("resampled", RESAMPLED)
def test_rows_beside_a_shard_are_sent(resampled: str, read: str, is_gradient: bool) -> None:
    layout = Layout([UNSHARDED, "x", UNSHARDED, UNSHARDED], LINE)
    compiled = check(
        program(resampled, read, is_gradient),
        IMAGE,
        mesh=LINE,
        in_layouts=(layout,),
        out_layouts=layout,
        error=1e-5,
        absolute=1e-4,
    )
    longest = 2 if resampled in ("nearest", "transposed") else 1  # rows of what is read
    assert sent(compiled) <= (30 if is_gradient else 6) * longest * ROW


# Every resampling on two meshes, each as something else reads it.
MESHES = [
    (mesh, resampled, read)
    for i, resampled in enumerate(RESAMPLED)
    for j, read in enumerate(READ)
    for k, mesh in enumerate((GRID, FIVE, SIX))
    if (i + j + k) % 3 == 0
]


@pytest.mark.sweep
@pytest.mark.parametrize(("mesh", "resampled", "read"), MESHES)
def test_values_are_those_of_one_device(mesh: Any, resampled: str, read: str) -> None:
    axes = [UNSHARDED, "x", UNSHARDED if mesh is FIVE else "y", UNSHARDED]
    layout = Layout(axes, mesh)
    image = IMAGE[:, :60, :48]
    is_gradient = mesh is not FIVE
    check(
        program(resampled, read, is_gradient),
        image,
        mesh=mesh,
        in_layouts=(layout,),
        error=1e-5,
        absolute=1e-4,
    )
