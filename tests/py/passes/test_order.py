"""Sorts, largest elements and Fourier transforms of split dimensions, on 8 devices against one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED
from dtensor.dialect.mesh import Mesh
from tests.py.passes.on_mesh import BOTH, GRID, LINE, kinds, run, sent

ROWS = ["x", UNSHARDED]


def numbers(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """Few different values, so that many are equal."""
    return np.random.default_rng(0).integers(0, 9, shape).astype(dtype)


@pytest.mark.parametrize("taken", [1, 3, 5, 24])
@pytest.mark.parametrize(
    ("mesh", "specs"),
    [
        (LINE, [UNSHARDED, "x"]),
        (GRID, ["x", "y"]),
        (GRID, ["y", "x"]),
        (GRID, [UNSHARDED, ("y", "x")]),
        (GRID, BOTH),
    ],
)
def test_the_largest_of_a_split_dimension(mesh: Mesh, specs: list[Any], taken: int) -> None:
    x = numbers((8, 24))
    x[1, 3], x[1, 20], x[2] = np.inf, np.inf, -np.inf
    run(lambda a: jax.lax.top_k(a, taken), mesh, [specs], x)


@pytest.mark.parametrize("dtype", [np.int8, np.uint32, np.float16])
def test_the_largest_of_any_type(dtype: Any) -> None:
    x = numbers((3, 64), dtype)
    run(lambda a: (jax.lax.top_k(a, 5), jax.lax.top_k(a[0], 7)), LINE, [[UNSHARDED, "x"]], x)


def test_only_candidates_are_gathered() -> None:
    compiled = run(lambda a: jax.lax.top_k(a, 4), LINE, [[UNSHARDED, "x"]], numbers((3, 4096)))
    assert kinds(compiled) == {"all_gather"}
    assert sent(compiled) == 7 * 3 * 4 * (4 + 4)


def test_sorts_move_the_axis_to_another_dimension_and_back() -> None:
    x = numbers((64, 16))
    for sort in (lambda a: jnp.sort(a, 0), lambda a: jnp.argsort(a, 0)):
        compiled = run(sort, LINE, [ROWS], x, out=ROWS)
        assert kinds(compiled) == {"all_to_all"}
        assert sent(compiled) == 2 * 7 / 8 * x.nbytes / 8


CUBE = np.random.default_rng(0).normal(size=(8, 16, 32)).astype(np.float32)


@pytest.mark.parametrize(
    ("mesh", "specs"),
    [(LINE, ["x", None, None]), (GRID, ["x", "y", None]), (GRID, ["y", None, "x"])],
)
def test_transforms_of_split_dimensions(mesh: Mesh, specs: list[Any]) -> None:
    def transforms(x: Any) -> Any:
        fft = jnp.fft
        z = x + 1j * x[::-1]
        found = [fft.fft(z, axis=d) for d in range(3)] + [fft.fft2(z), fft.ifftn(z), fft.rfftn(x)]
        return [*found, fft.irfftn(fft.rfftn(x) * 2)]

    specs = [UNSHARDED if spec is None else spec for spec in specs]
    run(transforms, mesh, [specs], CUBE, absolute=1e-3)  # sums of 4096 floats, up to 300


def test_a_transform_of_two_dimensions_moves_the_axis_and_back() -> None:
    x = CUBE[0].astype(np.complex64)
    compiled = run(jnp.fft.fft2, LINE, [ROWS], x, out=ROWS, absolute=1e-3)
    assert sent(compiled) == 2 * 7 / 8 * x.nbytes / 8

    def poisson(a: Any) -> Any:
        return jnp.fft.ifft2(jnp.fft.fft2(a) * 2)

    compiled = run(poisson, LINE, [ROWS], x, out=ROWS, absolute=1e-3)
    assert sent(compiled) == 2 * 7 / 8 * x.nbytes / 8


def test_pencils_of_three_dimensions_move_one_axis_at_a_time() -> None:
    specs = ["x", "y", UNSHARDED]
    compiled = run(jnp.fft.fftn, GRID, [specs], CUBE.astype(np.complex64), absolute=1e-3)
    assert kinds(compiled) == {"all_to_all"}
    assert sent(compiled) <= (3 / 4 + 1 / 2) * CUBE.nbytes * 2 / 8 * 2
