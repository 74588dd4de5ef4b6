"""`jax.lax.associative_scan` of matrices and other rows along split dimensions, on 8 and on one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from tests.py.passes.on_mesh import GRID, LINE, kinds, run, sent
from tests.py.uneven.on_meshes import FIVE, check, gathered

ROWS = ["x", UNSHARDED, UNSHARDED]
RANDOM = np.random.default_rng(0)


def products(a: Any, b: Any) -> Any:
    return b @ a


def affine(left: Any, right: Any) -> Any:
    """X -> A x + b, one after the other."""
    moved = jnp.einsum("...ij,...j->...i", right[0], left[1])
    return right[0] @ left[0], moved + right[1]


def gaussians(left: Any, right: Any) -> Any:
    """Means and covariances, as `jnp.matmul` moves them."""
    a, b, c = left
    a2, b2, c2 = right
    return a2 @ a, (a2 @ b[..., None])[..., 0] + b2, a2 @ c @ jnp.swapaxes(a2, -1, -2) + c2


def turns(a: Any, b: Any) -> Any:
    """Quaternions."""
    (w, x, y, z), (p, q, r, s) = ([c[..., i] for i in range(4)] for c in (a, b))
    return jnp.stack(
        [
            w * p - x * q - y * r - z * s,
            w * q + x * p + y * s - z * r,
            w * r - x * s + y * p + z * q,
            w * s + x * r - y * q + z * p,
        ],
        -1,
    )


def online(left: Any, right: Any) -> Any:
    """Maxima and sums of an attention; whole numbers in place of exponentials."""
    most = jnp.maximum(left[0], right[0])
    scales = [jnp.where(side[0] == most, 1.0, 0.0).astype(most.dtype) for side in (left, right)]
    pairs = list(zip((left, right), scales, strict=True))
    total = sum(side[1] * scale for side, scale in pairs)
    return most, total, sum(side[2] * scale[..., None] for side, scale in pairs)


def blocks(left: Any, right: Any) -> Any:
    """2 x 2 blocks of diagonals, one behind the other in a row."""
    a, c = (jnp.split(side[0], 4, -1) for side in (left, right))
    product = [c[i] * a[j] + c[i + 1] * a[j + 2] for i in (0, 2) for j in (0, 1)]
    b = jnp.split(left[1], 2, -1)
    moved = [c[i] * b[0] + c[i + 1] * b[1] for i in (0, 2)]
    return jnp.concatenate(product, -1), jnp.concatenate(moved, -1) + right[1]


def small(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """Zeros and a few ones of both signs: products and sums are exact."""
    x = RANDOM.choice([-1, 0, 0, 0, 1], shape)
    return x.astype(dtype)


def signed_permutations(rows: int, n: int) -> np.ndarray[Any, Any]:
    """Matrices whose products are exact and never vanish."""
    found = [np.eye(n)[RANDOM.permutation(n)] * RANDOM.choice([-1, 1], n) for _ in range(rows)]
    return np.array(found, np.float32)


def gaussian(rows: int, n: int) -> Any:
    return signed_permutations(rows, n), small(rows, n), small(rows, n, n)


FORMS: list[tuple[str, Callable[..., Any], Callable[[int], Any], int]] = [
    ("products", products, lambda n: signed_permutations(n, 3), 9),
    ("affine", affine, lambda n: (signed_permutations(n, 3), small(n, 3)), 12),
    ("gaussians", gaussians, lambda n: gaussian(n, 2), 10),
    ("turns", turns, lambda n: np.eye(4, dtype=np.float32)[RANDOM.integers(0, 4, n)], 4),
    ("online", online, lambda n: (small(n), small(n), small(n, 5)), 7),
    ("blocks", blocks, lambda n: (small(n, 12), small(n, 6)), 18),
]
NAMES = [name for name, *_ in FORMS]


def specs(x: Any, axes: Any, mesh: Mesh) -> Any:
    return jax.tree.map(lambda a: Layout([axes, *[UNSHARDED] * (a.ndim - 1)], mesh), x)


@pytest.mark.sweep
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("name", "combine", "make", "numbers"), FORMS, ids=NAMES)
def test_only_totals_of_rows_are_sent(
    name: str, combine: Callable[..., Any], make: Callable[[int], Any], numbers: int, reverse: bool
) -> None:
    def scan(*x: Any) -> Any:
        given = x if isinstance(make(4), tuple) else x[0]
        return lax.associative_scan(combine, given, reverse=reverse)

    x = jax.tree.leaves(make(64))
    layouts = [["x", *[UNSHARDED] * (a.ndim - 1)] for a in x]
    compiled = run(scan, LINE, layouts, *x)
    assert kinds(compiled) == {"shard_permute"}
    assert sent(compiled) == 3 * numbers * 4


MESHES: list[tuple[Mesh, Any]] = [(GRID, "y"), (GRID, ("y", "x")), (FIVE, "x")]
# Each form on each mesh; even and odd numbers of rows in turn, so that each mesh and form has both.
ELSEWHERE = [
    pytest.param(*form, *mesh, 37 if (i + k) % 2 else 40, id=f"{form[0]}-{k}")
    for i, form in enumerate(FORMS)
    for k, mesh in enumerate(MESHES)
]


@pytest.mark.sweep
@pytest.mark.parametrize(("name", "combine", "make", "numbers", "mesh", "axes", "rows"), ELSEWHERE)
def test_rows_on_other_meshes_and_of_any_number(
    name: str,
    combine: Callable[..., Any],
    make: Callable[[int], Any],
    numbers: int,
    mesh: Mesh,
    axes: Any,
    rows: int,
) -> None:
    x = make(rows)
    layouts = specs(x, axes, mesh)
    compiled = check(
        lambda x: lax.associative_scan(combine, x),
        x,
        mesh=mesh,
        in_layouts=(layouts,),
        out_layouts=layouts,
    )
    assert not gathered(compiled)


def test_some_results_of_a_scan_of_rows() -> None:
    """Who combines the rows that are returned reads some of the others, and nobody all of them."""
    a, b, c = gaussian(256, 3)
    compiled = run(
        lambda *x: lax.associative_scan(gaussians, x)[1:],
        LINE,
        [ROWS, ["x", UNSHARDED], ROWS],
        a,
        b,
        c,
    )
    assert kinds(compiled) == {"shard_permute"}


def test_a_batch_of_matrices_stays_split() -> None:
    x = np.stack([signed_permutations(40, 3) for _ in range(4)], 1)
    b = small(40, 4, 3)
    given = [["y", "x", UNSHARDED, UNSHARDED], ["y", "x", UNSHARDED]]
    compiled = run(lambda *x: lax.associative_scan(affine, x), GRID, given, x, b)
    assert kinds(compiled) == {"shard_permute"}
    assert sent(compiled) == 2 * 2 * 12 * 4
    given = [[UNSHARDED, "y", UNSHARDED, UNSHARDED], [UNSHARDED, "y", UNSHARDED]]
    compiled = run(lambda *x: lax.associative_scan(affine, x), GRID, given, x, b)
    assert not compiled.collectives


def test_a_scan_along_another_dimension() -> None:
    x = np.stack([signed_permutations(48, 3) for _ in range(2)])
    compiled = run(
        lambda x: lax.associative_scan(products, x, axis=1),
        LINE,
        [[UNSHARDED, "x", UNSHARDED, UNSHARDED]],
        x,
    )
    assert kinds(compiled) == {"shard_permute"}


@pytest.mark.parametrize("dtype", [np.int32, np.complex64, jnp.bfloat16])
def test_products_of_any_type(dtype: Any) -> None:
    x = signed_permutations(64, 2).astype(dtype)
    run(lambda x: lax.associative_scan(products, x), LINE, [ROWS], x)


def test_scans_that_read_the_same_rows() -> None:
    """What several scans cut of one value is cut once; one scan reads what another gives."""

    def both(a: Any, b: Any) -> Any:
        moved = lax.associative_scan(affine, (a, b))[1]
        return lax.associative_scan(jnp.maximum, moved), lax.associative_scan(jnp.add, b)

    a, b = signed_permutations(128, 3), small(128, 3)
    compiled = run(both, LINE, [ROWS, ["x", UNSHARDED]], a, b)
    assert kinds(compiled) == {"shard_permute"}


def test_rows_that_are_not_combined_by_themselves_stay_as_written() -> None:
    def mixed(a: Any, b: Any) -> Any:
        return a + b - jnp.sum(b, 0, keepdims=True)

    def turned(a: Any, b: Any) -> Any:
        return a + b[::-1]

    x = small(32, 4)
    for combine in (mixed, turned):
        run(lambda x, f=combine: lax.associative_scan(f, x), LINE, [["x", UNSHARDED]], x)


def test_nan_in_a_matrix_reaches_what_follows() -> None:
    x = signed_permutations(64, 2)
    x[37, 0, 1] = np.nan
    run(lambda x: lax.associative_scan(products, x), LINE, [ROWS], x)


def kalman(left: Any, right: Any) -> Any:
    """Two steps of a Kalman filter in one: Särkkä and García-Fernández (2021), lemma 8."""
    a, b, c, j, eta = left
    a2, b2, c2, j2, eta2 = right
    one = jnp.eye(a.shape[-1])
    gain = jnp.linalg.solve((one + c @ j2).T, a2.T).T
    back = jnp.linalg.solve((one + j2 @ c).T, a).T
    return (
        gain @ a,
        gain @ (b + c @ eta2) + b2,
        gain @ c @ a2.T + c2,
        back @ j2 @ a + j,
        back @ (eta2 - j2 @ b) + eta,
    )


def steps(rows: int, n: int) -> tuple[Any, ...]:
    """Elements of a filter with small numbers."""
    a, c, j = (0.4 * RANDOM.normal(size=(rows, n, n)) for _ in range(3))
    b, eta = RANDOM.normal(size=(2, rows, n))
    given = a, b, c @ c.transpose(0, 2, 1), j @ j.transpose(0, 2, 1), eta
    return tuple([x.astype(np.float32) for x in given])


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("mesh", "axes", "rows", "reverse", "bytes_sent"),
    [
        (LINE, "x", 32, False, 3 * (3 * 9 + 2 * 3) * 4),
        (FIVE, "x", 13, True, None),
    ],
)
def test_filters_that_solve_in_each_step_send_totals(
    mesh: Mesh, axes: Any, rows: int, reverse: bool, bytes_sent: float | None
) -> None:
    """An LU with its loop over pivots, and triangular solves, are applied to any number of rows."""
    x = steps(rows, 3)
    layouts = specs(x, axes, mesh)
    compiled = check(
        lambda *x: lax.associative_scan(jax.vmap(kalman), x, reverse=reverse),
        *x,
        mesh=mesh,
        in_layouts=layouts,
        out_layouts=layouts,
        error=1e-3,  # LU and sums in another order, float32
        absolute=1e-4,
    )
    assert kinds(compiled) == {"shard_permute"}
    assert bytes_sent is None or sent(compiled) == bytes_sent


def test_a_filter_may_share_its_constants_with_what_makes_its_elements() -> None:
    """`jnp.eye`, an iota and the splat added to it, is one value in and outside the scan."""

    def filtered(measured: Any, a: Any) -> Any:
        one = jnp.eye(3)

        def element(y: Any) -> tuple[Any, ...]:
            return a, y + one[0], one - a @ a.T, a.T @ a, a @ y

        return lax.associative_scan(jax.vmap(kalman), jax.vmap(element)(measured))[1]

    measured, a = (RANDOM.normal(size=shape).astype(np.float32) for shape in ((512, 3), (3, 3)))
    layouts = [Layout(spec, LINE) for spec in (["x", UNSHARDED], [UNSHARDED, UNSHARDED])]
    compiled = check(
        filtered,
        measured,
        0.3 * a,
        mesh=LINE,
        in_layouts=tuple(layouts),
        out_layouts=layouts[0],
        error=1e-3,  # LU and sums in another order, float32
        absolute=1e-4,
    )
    assert kinds(compiled) == {"shard_permute"}


def permutations(rows: int) -> np.ndarray[Any, Any]:
    return np.array([RANDOM.permutation(5) for _ in range(rows)], np.int32)


def unit(rows: int) -> np.ndarray[Any, Any]:
    """Complex numbers whose products are exact."""
    return RANDOM.choice(np.array([1, 1j, -1, -1j], np.complex64), (rows, 3))


def in_a_loop(a: Any, b: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, z: z + b * (i == 1), a)


def gcd(a: Any, b: Any) -> Any:
    """Until no row has anything left: rows wait for each other."""

    def step(pair: Any) -> Any:
        p, q = pair
        safe = jnp.where(q == 0, 1, q)
        return jnp.where(q == 0, p, q), jnp.where(q == 0, 0, p % safe)

    return lax.while_loop(lambda pair: jnp.any(pair[1] != 0), step, (a, b))[0]


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("combine", "make"),
    [
        (jax.vmap(lambda a, b: a[b]), permutations),
        (lambda a, b: jnp.sum((b[:, :, None] == jnp.arange(5)) * a[:, None], -1), permutations),
        (lambda a, b: jnp.sort(jnp.concatenate([a, b], -1), -1)[:, -5:], permutations),
        (lambda a, b: a.at[:, 1].add(b[:, 1]).at[:, 0].max(b[:, 0]), permutations),
        (in_a_loop, permutations),
        (lambda a, b: a * b * 1j * -1j, unit),
    ],
)
def test_rows_are_combined_by_lookups_loops_and_sorts(
    combine: Callable[..., Any], make: Callable[[int], Any]
) -> None:
    for rows in (40, 23):
        x = make(rows)
        compiled = check(
            lambda x: lax.associative_scan(combine, x),
            x,
            mesh=LINE,
            in_layouts=specs((x,), "x", LINE),
            out_layouts=specs(x, "x", LINE),
        )
        assert kinds(compiled) == {"shard_permute"}


def test_a_loop_in_which_rows_wait_for_each_other_stays_as_written() -> None:
    x = RANDOM.integers(1, 50, (32, 3)).astype(np.int32) * 60
    run(lambda x: lax.associative_scan(gcd, x), LINE, [["x", UNSHARDED]], x)


def test_what_is_known_of_a_body_is_known_of_its_loops_too() -> None:
    """One loop computes each column by itself; the other one, else alike, turns them around."""

    def turned(a: Any, b: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, z: (z[:, ::-1] + b[:, ::-1] * (i == 1))[:, ::-1], a)

    def both(x: Any) -> Any:
        return lax.associative_scan(in_a_loop, x), lax.associative_scan(turned, x)

    run(both, GRID, [["x", "y"]], np.arange(64, dtype=np.int32).reshape(16, 4))
