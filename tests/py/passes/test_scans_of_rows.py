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


FORMS: list[tuple[str, Callable[..., Any], Callable[[int], Any], int]] = [
    ("products", products, lambda n: signed_permutations(n, 3), 9),
    ("affine", affine, lambda n: (signed_permutations(n, 3), small(n, 3)), 12),
    ("turns", turns, lambda n: np.eye(4, dtype=np.float32)[RANDOM.integers(0, 4, n)], 4),
    ("online", online, lambda n: (small(n), small(n), small(n, 5)), 7),
    ("blocks", blocks, lambda n: (small(n, 12), small(n, 6)), 18),
]
NAMES = [name for name, *_ in FORMS]


def specs(x: Any, axes: Any, mesh: Mesh) -> Any:
    return jax.tree.map(lambda a: Layout([axes, *[UNSHARDED] * (a.ndim - 1)], mesh), x)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("name", "combine", "make", "numbers"), FORMS, ids=NAMES)
def test_only_totals_of_rows_are_sent(
    name: str, combine: Callable[..., Any], make: Callable[[int], Any], numbers: int, reverse: bool
) -> None:
    def scan(*x: Any) -> Any:
        given = x if isinstance(make(4), tuple) else x[0]
        return lax.associative_scan(combine, given, reverse=reverse)

    x = jax.tree.leaves(make(256))
    layouts = [["x", *[UNSHARDED] * (a.ndim - 1)] for a in x]
    compiled = run(scan, LINE, layouts, *x)
    assert kinds(compiled) == {"shard_permute"}
    assert sent(compiled) == 3 * numbers * 4


MESHES: list[tuple[Mesh, Any]] = [(GRID, "y"), (GRID, ("y", "x")), (FIVE, "x")]
# Each form on each mesh; even and odd numbers of rows in turn, so that each mesh and form has both.
ELSEWHERE = [
    pytest.param(*form, *mesh, 97 if (i + k) % 2 else 120, id=f"{form[0]}-{k}")
    for i, form in enumerate(FORMS)
    for k, mesh in enumerate(MESHES)
]


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
