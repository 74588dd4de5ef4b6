"""The QR of a matrix whose rows are split, on 8 devices against one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.client import create_mesh
from tests.py.passes.on_mesh import GRID, LINE, kinds, run, sent

THREE = create_mesh([("x", 3), ("y", 2)])
Array = np.ndarray[Any, Any]


def matrix(rows: int, columns: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(rows, columns)).astype(np.float32)


def both(a: Any) -> Any:
    """Q, R, and what shows that they are a QR."""
    q, r = jnp.linalg.qr(a)
    return q, r, q @ r, q.T @ q


@pytest.mark.sweep
@pytest.mark.parametrize("columns", [1, 2, 5, 8])
@pytest.mark.parametrize(
    ("mesh", "axes"), [(LINE, "x"), (GRID, "x"), (GRID, ("y", "x")), (THREE, ("x", "y"))]
)
def test_q_and_r_have_the_signs_of_one_device(mesh: Mesh, axes: Any, columns: int) -> None:
    for seed in range(3):
        a = matrix(96, columns, seed)
        compiled = run(both, mesh, [[axes, UNSHARDED]], a, absolute=2e-5)
    assert sent(compiled) < a.nbytes


def test_shards_that_are_no_tall_matrices_are_put_together() -> None:
    run(both, LINE, [["x", UNSHARDED]], matrix(64, 9), absolute=2e-5)


@pytest.mark.parametrize("rows", [97, 103, 41])
def test_rows_that_the_devices_do_not_divide(rows: int) -> None:
    for columns in (1, 4):
        compiled = run(both, LINE, [["x", UNSHARDED]], matrix(rows, columns), absolute=2e-5)
        assert kinds(compiled) == {"all_gather", "all_reduce"}


def test_only_triangles_and_signs_are_sent() -> None:
    specs = ["x", UNSHARDED]
    for columns in (32, 7):
        compiled = run(
            lambda a: jnp.linalg.qr(a)[0],
            LINE,
            [specs],
            matrix(4096, columns),
            absolute=1e-5,
            out=specs,
        )
        triangle = (columns + 1) // 2 * (columns + 1) * 4
        assert sent(compiled) == 7 * triangle + 2 * 7 / 8 * columns * 4
        assert kinds(compiled) == {"all_gather", "all_reduce"}


@pytest.mark.parametrize("kind", ["zeros", "identity", "triangle", "first_column_zero"])
def test_matrices_of_which_little_is_reflected(kind: str) -> None:
    a = np.zeros((64, 5), np.float32)
    if kind == "identity":
        a[:5] = np.diag([1, -2, 3, -4, 5])
    elif kind == "triangle":
        a[:5] = np.triu(matrix(5, 5))
    elif kind == "first_column_zero":
        a[:, 1:] = matrix(64, 4)
        run(
            lambda x: jnp.linalg.qr(x)[0] @ jnp.linalg.qr(x)[1],
            LINE,
            [["x", None]],
            a,
            absolute=1e-5,
        )
        return
    run(both, LINE, [["x", UNSHARDED]], a, absolute=1e-6)


def test_an_ill_conditioned_matrix_keeps_orthogonal_columns() -> None:
    """Where products of columns (Cholesky's QR) would not even find a second column."""
    a = matrix(1024, 6)
    a[:, 1:] = a[:, :1] + 1e-6 * a[:, 1:]
    compiled = run(
        lambda x: [q.T @ q for q in [jnp.linalg.qr(x)[0]]],
        LINE,
        [["x", UNSHARDED]],
        a,
        absolute=1e-5,
    )
    assert kinds(compiled) == {"all_gather", "all_reduce"}


def test_r_alone_and_double_precision() -> None:
    specs = [["x", UNSHARDED]]
    compiled = run(lambda a: jnp.linalg.qr(a, mode="r"), LINE, specs, matrix(96, 4), absolute=1e-5)
    assert kinds(compiled) == {"all_gather", "all_reduce"}
    with jax.enable_x64(True):
        a = matrix(96, 4).astype(np.float64)
        run(both, LINE, [["x", UNSHARDED]], a, absolute=1e-13)


def test_least_squares_and_the_gradient_of_a_qr() -> None:
    def solve(a: Any, b: Any) -> Any:
        q, r = jnp.linalg.qr(a)
        return jax.scipy.linalg.solve_triangular(r, q.T @ b)

    def loss(a: Any) -> Any:
        q, r = jnp.linalg.qr(a)
        return jnp.sum(q * jnp.arange(4.0)) + jnp.sum(r**2)

    a, b = matrix(96, 4), matrix(96, 1, 1)[:, 0]
    run(solve, LINE, [["x", UNSHARDED], ["x"]], a, b, absolute=1e-5)
    run(jax.grad(loss), LINE, [["x", UNSHARDED]], a, absolute=1e-4)


def complex_matrices(*shape: int, seed: int = 0) -> Array:
    parts = np.random.default_rng(seed).normal(size=(2, *shape))
    return np.asarray(parts[0] + 1j * parts[1], np.complex64)


def both_of_each(a: Any) -> Any:
    """As `both`, of a batch, of complex numbers too."""
    q, r = jnp.linalg.qr(a)
    return q, r, q @ r, q.conj().swapaxes(-1, -2) @ q


@pytest.mark.sweep
@pytest.mark.parametrize(("batch", "is_complex"), [((1,), True), ((3,), False), ((2, 2), True)])
@pytest.mark.parametrize(
    ("mesh", "first", "rows"),
    [(LINE, None, "x"), (GRID, "x", "y"), (GRID, "y", "x"), (THREE, "x", "y"), (THREE, "y", "x")],
)
def test_a_batch_of_matrices(
    mesh: Mesh, first: Any, rows: str, batch: tuple[int, ...], is_complex: bool
) -> None:
    numbers = complex_matrices(*batch, 96, 5)
    a = numbers if is_complex else numbers.real.copy()
    ahead = [first or UNSHARDED, *[UNSHARDED] * (len(batch) - 1)]
    compiled = run(both_of_each, mesh, [[*ahead, rows, UNSHARDED]], a, absolute=2e-5)
    assert sent(compiled) < a.nbytes


@pytest.mark.sweep
@pytest.mark.parametrize("columns", [1, 2, 5, 8])
@pytest.mark.parametrize(("mesh", "axes"), [(LINE, "x"), (GRID, ("y", "x")), (THREE, ("x", "y"))])
def test_complex_columns_have_the_phases_of_one_device(mesh: Mesh, axes: Any, columns: int) -> None:
    for seed in range(3):
        a = complex_matrices(96, columns, seed=seed)
        compiled = run(both_of_each, mesh, [[axes, UNSHARDED]], a, absolute=2e-5)
    assert sent(compiled) < a.nbytes


def test_a_batch_sends_the_triangles_and_signs_of_each_matrix() -> None:
    specs = [UNSHARDED, "x", UNSHARDED]
    for numbers, item in ((complex_matrices(3, 512, 6), 8), (complex_matrices(3, 512, 6).real, 4)):
        compiled = run(lambda a: jnp.linalg.qr(a)[0], LINE, [specs], numbers, absolute=1e-5)
        assert sent(compiled) == 3 * (7 * (3 * 7 * item) + 2 * 7 / 8 * 6 * 4)


def test_batches_of_matrices_of_which_little_is_reflected() -> None:
    a = np.zeros((4, 64, 5), np.complex64)
    a[1, :5] = np.diag([1, -2, 3, -4, 5])
    a[2, :5] = np.triu(complex_matrices(5, 5))
    a[3] = complex_matrices(64, 5)
    run(both_of_each, LINE, [[UNSHARDED, "x", UNSHARDED]], a, absolute=1e-5)
    run(both_of_each, LINE, [[UNSHARDED, "x", UNSHARDED]], a.real.copy(), absolute=1e-5)


@pytest.mark.sweep
@pytest.mark.parametrize("kind", ["first_row", "other_shards", "imaginary", "permutation"])
def test_a_pivot_of_zero_is_reflected_as_on_one_device(kind: str) -> None:
    """The sign of such a pivot's Q is that of a rounding, or of nothing."""
    a = complex_matrices(64, 5)
    if kind == "first_row":
        a[0] = 0
    elif kind == "other_shards":
        a[6:] = a[0] = 0
    elif kind == "imaginary":
        a = (1j * a.real).astype(np.complex64)
    else:
        a[5:] = 0
        a[:5] = 1j * np.eye(5)[[1, 0, 2, 4, 3]]
    for given in (a, a.imag.copy()):
        run(both_of_each, LINE, [["x", UNSHARDED]], given, absolute=1e-5)


def test_complex_double_precision_and_the_gradient_of_a_batch() -> None:
    with jax.enable_x64(True):
        a = complex_matrices(2, 96, 4).astype(np.complex128)
        run(both_of_each, LINE, [[UNSHARDED, "x", UNSHARDED]], a, absolute=1e-13)

    def loss(a: Any) -> Any:
        q, r = jnp.linalg.qr(a)
        return jnp.sum(q * jnp.arange(4.0)) + jnp.sum(r**2)

    b = complex_matrices(2, 96, 4).real.copy()
    run(jax.grad(loss), LINE, [[UNSHARDED, "x", UNSHARDED]], b, absolute=1e-4)
