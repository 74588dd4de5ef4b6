"""Moving averages as differences of cumulative sums, whose first one is joined to the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from tests.py.uneven.on_meshes import LINE, TILED, check, cuts, sent


def average(x: Any, width: int) -> Any:
    sums = jnp.cumsum(x, 0)
    return jnp.concatenate([sums[width - 1 : width], sums[width:] - sums[:-width]], 0) / 8


def gradient(width: int) -> Callable[[Any], Any]:
    """Of an array: the gradient of a sum of squares; all its terms are eighths."""
    return jax.grad(lambda x: jnp.sum(average(x, width) ** 2).real)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("rows", [96, 61, 43])
@pytest.mark.parametrize(("mesh", "specs"), TILED)
def test_values_and_gradients(mesh: Mesh, specs: list[Any], rows: int, dtype: Any) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (rows, 5)).astype(dtype)
    for width in (8, 3):
        layouts = (Layout(specs, mesh),)
        check(lambda x, n=width: average(x, n), x, mesh=mesh, in_layouts=layouts)
        check(gradient(width), x, mesh=mesh, in_layouts=layouts, out_layouts=layouts[0])


@pytest.mark.parametrize("rows", [512, 500])
def test_gradients_bring_totals_and_few_rows(rows: int) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (rows, 16)).astype(np.float32)
    layout = Layout(["x", UNSHARDED], LINE)
    compiled = check(gradient(8), x, mesh=LINE, in_layouts=(layout,), out_layouts=layout)
    assert not cuts(compiled)
    assert {c.kind for c in compiled.collectives} <= {
        "halo_exchange",
        "shard_permute",
        "all_reduce",
    }
    assert sent(compiled) <= 46 * 64 + 119
