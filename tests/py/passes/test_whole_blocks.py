"""Slices with a stride, and pads with gaps, of dimensions of no number of whole blocks."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from tests.py.passes.on_mesh import BOTH, GRID, LINE, kinds, numbers, run, sent
from tests.py.uneven.on_meshes import TILED, check

ROWS = ["x", UNSHARDED]


def strided(x: Any) -> Any:
    """Slices of each phase, of later starts, of both dimensions, and of slices of slices."""
    pairs = x[: x.shape[0] // 2 * 2]
    return [
        x[::3],
        x[1::3],
        x[5::3] * x[4:-1:3],
        x[2:-7:2],
        x[::2][1::2],
        x[1::3, ::5],
        x[3:4:3],
        pairs[::2] * pairs[1::2],
        x.at[1::3].set(x[: len(range(1, x.shape[0], 3))]),
    ]


@jax.grad
def gradient(x: Any) -> Any:
    return sum(jnp.sum(each**2 % 5) for each in strided(x))


@pytest.mark.sweep
@pytest.mark.parametrize("rows", [171, 200, 23])
@pytest.mark.parametrize(("mesh", "specs"), TILED)
def test_one_of_several_elements(mesh: Mesh, specs: list[Any], rows: int) -> None:
    x, layout = numbers((rows, 11)), Layout(specs, mesh)
    check(strided, x, mesh=mesh, in_layouts=(layout,))
    check(gradient, x, mesh=mesh, in_layouts=(layout,), out_layouts=layout)


@pytest.mark.parametrize("dtype", [jnp.int8, jnp.bool_, jnp.complex64])
def test_elements_of_any_type(dtype: Any) -> None:
    run(strided, GRID, [BOTH], numbers((193, 6), dtype))


def test_a_shard_lacks_what_its_blocks_do() -> None:
    """Of 512 rows 66 a shard in place of 64: the last has 462 to 511, and lacks 14 in front."""
    x = numbers((512, 6))
    compiled = run(lambda x: x[::3], LINE, [ROWS], x)
    assert kinds(compiled) == {"halo_exchange"}
    assert sent(compiled) == 14 * 6 * 4


def test_all_phases_lack_the_same() -> None:
    x = numbers((512, 6))
    compiled = run(lambda x: x[::3][:170] + x[1::3][:170] * x[2::3], LINE, [ROWS], x)
    assert sent(compiled) == 14 * 6 * 4


def test_wavelets_of_odd_sizes() -> None:
    def haar(x: Any) -> Any:
        details = []
        for _ in range(4):
            even = x.shape[0] // 2 * 2
            details.append(x[0:even:2] - x[1:even:2])
            x = x[0:even:2] + x[1:even:2]
        return *details, x

    x = numbers((1000,))
    assert sent(run(haar, LINE, [["x"]], x)) <= 4 * 7 * 4


def test_gradients_of_what_is_left_out() -> None:
    def loss(x: Any) -> Any:
        return jnp.sum(x[1::3] ** 2) + jnp.sum(lax.slice(x, (0,), (511,), (2,)))

    x = numbers((512,))
    compiled = run(jax.grad(loss), LINE, [["x"]], x, out=["x"])
    assert kinds(compiled) == {"halo_exchange"}
