"""Singular values of matrices whose long dimension is split, on 8 devices against one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED
from dtensor.dialect.mesh import Mesh
from tests.py.passes.on_mesh import GRID, LINE, kinds, run, sent

Array = np.ndarray[Any, Any]
TRIANGLES = {"all_gather", "all_reduce"}


def matrix(*shape: int, dtype: Any = np.float32) -> Array:
    """Of singular values that lie apart, so that each vector is one alone."""
    parts = np.random.default_rng(0).normal(size=(2, *shape))
    numbers = parts[0] + 1j * parts[1] if np.issubdtype(dtype, np.complexfloating) else parts[0]
    return np.asarray(numbers, dtype)


def vectors(a: Any) -> Any:
    """Left and right vectors, and values."""
    return jnp.linalg.svd(a, full_matrices=False)


def values(a: Any) -> Any:
    """Values alone."""
    return jnp.linalg.svd(a, compute_uv=False)


def along(shape: tuple[int, ...], axes: Any) -> list[Any]:
    """A layout that splits the longer of the last two dimensions."""
    specs = [UNSHARDED] * len(shape)
    specs[len(shape) - 2 + int(shape[-1] > shape[-2])] = axes
    return specs


# Each shape on each mesh, the types in turn: each shape and each mesh has both.
TALL = [
    (mesh, axes, shape, (np.float32, np.complex64)[(i + k) % 2])
    for i, shape in enumerate([(96, 5), (5, 96), (97, 4), (3, 61), (2, 96, 6), (3, 4, 80)])
    for k, (mesh, axes) in enumerate([(LINE, "x"), (GRID, "y"), (GRID, ("y", "x"))])
]


@pytest.mark.sweep
@pytest.mark.parametrize(("mesh", "axes", "shape", "dtype"), TALL)
def test_vectors_have_the_signs_of_one_device(
    mesh: Mesh, axes: Any, shape: tuple[int, ...], dtype: Any
) -> None:
    a = matrix(*shape, dtype=dtype)
    for function in (vectors, values):
        compiled = run(function, mesh, [along(shape, axes)], a, absolute=5e-5)
        assert kinds(compiled) >= TRIANGLES
        assert sent(compiled) < a.nbytes


def test_least_squares_send_a_triangle_and_sums() -> None:
    def solve(a: Any, b: Any) -> Any:
        return jnp.linalg.lstsq(a, b)[0]

    a, b = matrix(512, 6), matrix(512, 1)[:, 0]
    specs = [["x", UNSHARDED], ["x"]]
    compiled = run(solve, LINE, specs, a, b, absolute=1e-5)
    assert kinds(compiled) == TRIANGLES
    triangle, sums = 7 * 3 * 7 * 4, 2 * 7 / 8 * 2 * 6 * 4
    assert sent(compiled) == triangle + sums


@pytest.mark.sweep
@pytest.mark.parametrize("shape", [(96, 5), (5, 96), (97, 4)])
def test_what_numpy_computes_of_singular_values(shape: tuple[int, ...]) -> None:
    a = matrix(*shape)
    for function in (
        jnp.linalg.pinv,
        jnp.linalg.matrix_rank,
        jnp.linalg.cond,
        lambda a: jnp.linalg.norm(a, "nuc"),
        jax.grad(lambda a: jnp.sum(jnp.linalg.pinv(a) ** 2)),
        jax.grad(lambda a: jnp.linalg.norm(a, 2)),
    ):
        compiled = run(function, LINE, [along(shape, "x")], a, absolute=1e-5)
        assert sent(compiled) < a.nbytes


def test_a_matrix_of_less_rank_and_nan() -> None:
    a = matrix(96, 5)
    a[:, 3] = a[:, 1] - 2 * a[:, 0]
    specs = [["x", UNSHARDED]]
    run(lambda a: jnp.linalg.lstsq(a, a[:, 2])[0], LINE, specs, a, absolute=1e-5)
    run(values, LINE, specs, a, absolute=1e-5)
    a[7, 2] = np.nan
    run(vectors, LINE, specs, a)


def test_all_vectors_and_short_shards_stay_calls_of_whole_matrices() -> None:
    compiled = run(jnp.linalg.svd, LINE, [["x", UNSHARDED]], matrix(64, 3), absolute=1e-5)
    assert kinds(compiled) == {"all_gather"}
    compiled = run(vectors, LINE, [["x", UNSHARDED]], matrix(32, 5))
    assert kinds(compiled) == {"all_gather"}
