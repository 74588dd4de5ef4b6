"""What people split unevenly: a vocabulary, heads, a batch. Values and bytes: none is gathered."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.compiler.api import jit
from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from dtensor.passes.uneven import classes
from dtensor.runtime.client import create_mesh
from tests.py.uneven.on_meshes import (
    FIVE,
    GRID,
    LINE,
    check,
    check_vocabulary,
    cuts,
    gathered,
    sent,
)

RANDOM = np.random.default_rng(1)
FOUR = create_mesh([("x", 4)], devices=jax.devices()[:4])


def normal(*shape: int) -> Any:
    return (RANDOM.normal(size=shape) / 4).astype(np.float32)


def whole(mesh: Mesh, rank: int) -> Layout:
    return Layout.replicated(mesh, rank)


def cross_entropy(table: Any, hidden: Any, labels: Any) -> Any:
    logits = jax.nn.log_softmax(hidden @ table.T)
    return -jnp.take_along_axis(logits, labels[:, None], 1).mean()


def test_cross_entropy_over_50257_words() -> None:
    table, hidden = normal(50257, 12), normal(7, 12)
    check_vocabulary(cross_entropy, table, hidden, RANDOM.integers(0, 50257, 7))


def test_one_table_of_50257_words_at_both_ends() -> None:
    table, ids = normal(50257, 12), RANDOM.integers(0, 50257, 7)
    compiled = check(
        jax.value_and_grad(lambda t, i: cross_entropy(t, jnp.tanh(t[i]), i)),
        table,
        ids,
        mesh=LINE,
        in_layouts=(Layout(["x", None], LINE), whole(LINE, 1)),
        error=2e-4,
        absolute=1e-7,
    )
    assert not gathered(compiled)
    assert not cuts(compiled)
    assert sent(compiled) <= 2 * 7 / 8 * (3 * 7 * 4 + 4 + 2 * 7 * 12 * 4)


def attention(x: Any, wq: Any, wk: Any, wv: Any, wo: Any) -> Any:
    q, k, v = (jnp.einsum("btd,dhc->bhtc", x, w) for w in (wq, wk, wv))
    scores = jnp.einsum("bhtc,bhsc->bhts", q, k) / 2
    mask = jnp.tril(jnp.ones(scores.shape[2:], bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9))
    mixed = jnp.einsum("bhts,bhsc->bthc", weights, v)
    return jnp.einsum("bthc,hcd->btd", mixed, wo)


def test_6_heads_over_4() -> None:
    x = normal(2, 5, 12)
    weights = [normal(12, 6, 3), normal(12, 6, 3), normal(12, 6, 3), normal(6, 3, 12)]
    split = Layout([None, "x", None], FOUR)
    layouts = (whole(FOUR, 3), split, split, split, Layout(["x", None, None], FOUR))

    def loss(*args: Any) -> Any:
        return (attention(*args) ** 2).sum()

    compiled = check(
        jax.value_and_grad(loss, (0, 1, 2, 3, 4)),
        x,
        *weights,
        mesh=FOUR,
        in_layouts=layouts,
        error=2e-4,
        absolute=1e-6,
    )
    assert not gathered(compiled)
    assert not cuts(compiled)
    assert sent(compiled) <= 2 * 3 / 4 * 2 * x.nbytes + 16  # the result, and the gradient of x
    assert compiled.out_layouts[1] == layouts


def test_6_heads_that_are_merged_into_one_dimension() -> None:
    def attend(x: Any, w: Any, wo: Any) -> Any:
        heads = (x @ w).reshape(2, 5, 6, 3)
        mixed = jnp.einsum("bhts,bshc->bthc", jnp.einsum("bthc,bshc->bhts", heads, heads), heads)
        return mixed.reshape(2, 5, 18) @ wo

    layouts = (whole(FOUR, 3), Layout([None, "x"], FOUR), Layout(["x", None], FOUR))
    check(
        jax.grad(lambda *args: (attend(*args) ** 2).sum(), (0, 1, 2)),
        normal(2, 5, 12),
        normal(12, 18),
        normal(18, 12),
        mesh=FOUR,
        in_layouts=layouts,
        error=2e-4,
        absolute=1e-6,
    )


def test_a_batch_of_6_over_4() -> None:
    def loss(params: Any, x: Any, y: Any) -> Any:
        for w, b in params[:-1]:
            x = jax.nn.gelu(x @ w + b)
        w, b = params[-1]
        error = (x.reshape(-1, x.shape[-1]) @ w + b).reshape(y.shape) - y
        return (error**2).mean()

    def step(params: Any, x: Any, y: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(params, x, y)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, gradient)

    params = [(normal(5, 7), normal(7)), (normal(7, 3), normal(3))]
    x, y = normal(6, 50, 5), normal(6, 50, 3)
    batch = Layout(["x", None, None], FOUR)
    held = [(whole(FOUR, 2), whole(FOUR, 1))] * 2
    compiled = check(
        step,
        params,
        x,
        y,
        mesh=FOUR,
        in_layouts=(held, batch, batch),
        out_layouts=(whole(FOUR, 0), held),
        error=1e-5,
        absolute=1e-7,
    )
    assert not gathered(compiled)
    assert not cuts(compiled)
    size = sum(p.nbytes for pair in params for p in pair)
    assert sent(compiled) <= 2 * 3 / 4 * (size + 4)


@pytest.mark.parametrize("mesh", [LINE, FIVE])
def test_solves_along_rows_and_then_columns(mesh: Mesh) -> None:
    """As the gradient of a Cholesky factor: a solver reads the true rows, its columns stay split.

    What it leaves is padded again before its columns are cut, so that they can move to the rows.
    """
    size = 61
    factor = np.tril(RANDOM.normal(size=(size, size))) / 9 + np.eye(size)

    def solved(kernel: Any) -> Any:
        lower = jnp.asarray(factor, jnp.float32)
        symmetric = kernel + kernel.T
        left = jax.lax.linalg.triangular_solve(lower, symmetric, left_side=True, lower=True)
        return symmetric + jax.lax.linalg.triangular_solve(lower, left, lower=True)

    layouts = (Layout([UNSHARDED, "x"], mesh),)
    compiled = check(
        solved, normal(size, size), mesh=mesh, in_layouts=layouts, error=1e-4, absolute=1e-4
    )
    assert {c.kind for c in compiled.collectives} == {"all_to_all"}


@pytest.mark.parametrize("shape", [(6, 5), (11, 7)])
def test_what_is_longer_elsewhere_is_padded_there_and_then_moved(shape: tuple[int, int]) -> None:
    """Rows over y become rows over x and columns over y: none are gathered."""
    layouts = Layout(["y", UNSHARDED], GRID), Layout(["x", "y"], GRID)
    compiled = check(lambda x: x, normal(*shape), in_layouts=layouts[:1], out_layouts=layouts[1])
    assert {c.kind for c in compiled.collectives} <= {"all_to_all", "shard_permute"}


def test_layers_in_a_scan_over_an_uneven_batch() -> None:
    def loss(weights: Any, x: Any) -> Any:
        def layer(h: Any, w: Any) -> Any:
            h = jnp.tanh(h @ w)
            return h, h.mean()

        h, means = jax.lax.scan(jax.checkpoint(layer), x, weights)
        return (h**2).sum() + means.sum()

    weights, x = normal(3, 5, 5), normal(7, 50, 5)
    compiled = check(
        jax.value_and_grad(loss),
        weights,
        x,
        mesh=FOUR,
        in_layouts=(whole(FOUR, 3), Layout(["x", None, None], FOUR)),
        error=1e-5,
        absolute=1e-6,
    )
    assert not gathered(compiled)
    assert not cuts(compiled)


def test_dimensions_that_grow_alike_are_read_once_however_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Steps of a flow between ghost rows: each slice and each join ties a few hundred to more."""
    read: list[int] = []
    common = classes._common

    def counted(steps: Iterable[Fraction]) -> Fraction:
        found = list(steps)
        read.append(len(found))
        return common(found)

    def step(u: Any, rate: float) -> Any:
        ghost = jnp.concatenate([-u[1:2], u, u[-1:]])
        slope = ghost[1:] - ghost[:-1]
        flux = jnp.minimum(jnp.abs(slope[1:]), jnp.abs(slope[:-1])) * rate
        return u - flux * (ghost[2:] - ghost[:-2])

    def steps(u: Any) -> Any:
        for rate in range(8):
            u = step(u, 0.1 + rate)
        return (u**2).sum()

    monkeypatch.setattr(classes, "_common", counted)
    u = jax.ShapeDtypeStruct((64, 5), jnp.float32)
    jit(jax.grad(steps), in_layouts=(Layout(["x", UNSHARDED], LINE),)).lower(u).compile()
    assert 0 < sum(read) < 1_000
