"""Constraints that do not divide, inside of programs: values, and what is cut for whom."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.compiler.api import jit
from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from tests.py.uneven.on_meshes import FIVE, GRID, LINE, SIX, check, cuts, split

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(6, 10)).astype(np.float32)
W = RANDOM.normal(size=(10, 7)).astype(np.float32)
IDS = RANDOM.integers(-2, 12, (5, 3)).astype(np.int32)
ROUNDING = 2e-6  # of sums in another order, float32


def rows(x: Any, mesh: Mesh = GRID) -> Any:
    return split(x, mesh, "y" if len(mesh.axes) > 1 else "x")


def columns(x: Any) -> Any:
    return split(x, GRID, None, "y")


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "element by element": lambda x: jnp.tanh(rows(x)) * 2 + x,
    "sum": lambda x: rows(x).sum(0),
    "sum of all": lambda x: rows(x).sum(),
    "mean": lambda x: rows(x).mean(0),
    "variance": lambda x: rows(x).var(0),
    "maximum": lambda x: rows(x).max(0),
    "minimum": lambda x: rows(x).min(),
    "product": lambda x: rows(x).prod(0),
    "any and all": lambda x: ((rows(x) > 1).any(0), (rows(x) < 1).all(0)),
    "argmax": lambda x: (jnp.argmax(rows(x), 0), jnp.argmin(columns(x), 1)),
    "softmax": lambda x: jax.nn.softmax(columns(x)),
    "log of a sum": lambda x: jax.nn.logsumexp(columns(x), 1),
    "product over the padding": lambda x: columns(x) @ W,
    "product beside the padding": lambda x: rows(x) @ W,
    "outer product": lambda x: jnp.einsum("ij,kl->ijkl", rows(x), columns(x)).sum((0, 3)),
    "transpose": lambda x: rows(x).T,
    "into one dimension": lambda x: rows(x).reshape(-1) * 2,
    "into two dimensions": lambda x: rows(x).reshape(2, 3, 10) * 2,
    "one dimension into two": lambda x: split(x.reshape(-1), GRID, ("x", "y")).reshape(15, 4) + 1,
    "new dimension": lambda x: rows(x)[:, None] + rows(x)[None],
    "broadcast": lambda x: split(jnp.broadcast_to(x[0], (6, 10)), GRID, "y") + x,
    "iota": lambda x: rows(x) + jnp.arange(6)[:, None],
    "constant": lambda x: rows(x) + np.arange(60, dtype=np.float32).reshape(6, 10),
    "joined beside": lambda x: jnp.concatenate([rows(x), rows(x) + 1], 1),
    "joined along": lambda x: jnp.concatenate([rows(x), rows(x) + 1], 0),
    "padded beside": lambda x: jnp.pad(rows(x), ((0, 0), (1, 2))),
    "padded along": lambda x: jnp.pad(rows(x), ((1, 2), (0, 0))),
    "cut beside": lambda x: rows(x)[:, 2:5],
    "cut along": lambda x: rows(x)[2:5],
    "one row": lambda x: rows(x)[4],
    "reversed": lambda x: (rows(x)[::-1], rows(x)[:, ::-1]),
    "rolled": lambda x: jnp.roll(rows(x), 1, 0),
    "sorted": lambda x: (jnp.sort(rows(x), 0), jnp.sort(rows(x), 1)),
    "sums from the start": lambda x: (jnp.cumsum(rows(x), 0), jnp.cumsum(rows(x), 1)),
    "largest": lambda x: (lax.top_k(rows(x), 3), lax.top_k(columns(x), 3)),
    "place that is computed": lambda x: lax.dynamic_slice(
        rows(x), (jnp.argmax(x[:, 0]), jnp.argmax(x[0])), (3, 4)
    ),
    "update": lambda x: lax.dynamic_update_slice(
        rows(x), x[:2, :3] * 2, (jnp.argmax(x[:, 0]) + 5, jnp.argmax(x[0]))
    ),
    "lookup": lambda x: split(x, GRID, None, "y")[:, IDS],
    "lookup, clipped": lambda x: jnp.take(columns(x), IDS, 1, mode="clip"),
    "lookup, filled": lambda x: jnp.take(rows(x), IDS, 0, mode="fill", fill_value=3),
    "lookup by uneven indices": lambda x: x[:, split(jnp.asarray(IDS), GRID, "y")],
    "lookup along": lambda x: jnp.take_along_axis(columns(x), IDS[:3].repeat(2, 0), 1),
    "scattered sum": lambda x: rows(x).at[IDS].add(2.0),
    "scattered sum of uneven updates": lambda x: (
        jnp.zeros((12, 10)).at[jnp.arange(6) % 4].add(rows(x))
    ),
    "scattered maximum": lambda x: x.at[:, IDS[:, 0]].max(split(x[:, :5], GRID, None, "y")),
    "overwritten": lambda x: rows(x).at[3].set(1.0),
    "segments": lambda x: jax.ops.segment_sum(rows(x), jnp.array([0, 2, 1, 1, 0, 2]), 3),
    "loop": lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.tanh(c @ W @ W.T / 9) + i, rows(x)),
    "scan over it": lambda x: lax.scan(lambda c, r: (c + r, jnp.sin(c) * r), x[0], rows(x)),
    "scan beside it": lambda x: lax.scan(lambda c, r: (c + r.sum(), c * r), 0.0, columns(x)),
    "branch": lambda x: lax.cond(x[0, 0] > 0, lambda c: c * 2, lambda c: c - 1, rows(x)),
    "barrier": lambda x: lax.optimization_barrier((rows(x), x * 2)),
    "where": lambda x: jnp.where(rows(x) > 0, x, -1.0),
    "one hot": lambda x: jax.nn.one_hot(IDS[:, 0], 10) @ columns(x).T,
    "windows": lambda x: lax.reduce_window(rows(x), -np.inf, lax.max, (2, 2), (1, 1), "VALID"),
    "convolution": lambda x: lax.conv_general_dilated(
        rows(x)[:, None], jnp.asarray(W.T[:, None, :3]), (1,), "SAME", rhs_dilation=(2,)
    ),
    "convolution over features": lambda x: lax.conv_general_dilated(
        rows(x)[None], jnp.asarray(W.T[:, :6, None]), (1,), "VALID"
    ),
    "convolution in groups": lambda x: lax.conv_general_dilated(
        rows(x)[None], jnp.asarray(W[:6, None, :3]), (1,), "VALID", feature_group_count=6
    ),
    "pooling": lambda x: lax.reduce_window(rows(x), 0.0, lax.add, (1, 3), (1, 2), "SAME"),
    "transform": lambda x: jnp.abs(jnp.fft.fft(rows(x), axis=1)),
    "transform along": lambda x: jnp.abs(jnp.fft.fft(rows(x), axis=0)),
    "solve": lambda x: jnp.linalg.solve(
        jnp.eye(3) * 4 + rows(x)[:, :9].reshape(6, 3, 3), rows(x)[:, :3, None]
    ),
    "cholesky": lambda x: jnp.linalg.cholesky(
        jnp.einsum("bij,bkj->bik", *[rows(x)[:, :9].reshape(6, 3, 3)] * 2) + jnp.eye(3)
    ),
    "random": lambda x: rows(jax.random.normal(jax.random.key(0), (6, 10))) + x,
    "element types": lambda x: (
        rows(x.astype(jnp.bfloat16)).sum(0, dtype=np.float32),
        rows((x * 9).astype(np.int8)).max(0),
        rows((x * 9).astype(np.int32)).sum(0),
        rows(x > 0).any(0),
        rows(x > 0).sum(0),
        jnp.abs(rows(x + 1j * x).sum(0)),
        (rows(x + 2j * x).T @ x).real,
        rows(jnp.abs(x * 9).astype(np.uint8)).min(0),
    ),
    "nothing reads it": lambda x: (rows(x) * 0, x)[1],
    "two dimensions": lambda x: split(x, GRID, "y", "x") @ split(W + 0 * x[0, 0], GRID, "x", "y"),
    "both over all": lambda x: split(x, GRID, None, ("x", "y")).sum(1),
}


KNOW_OF_PADDING = (
    "convolution",
    "convolution over features",
    "pooling",
    "lookup along",
    "argmax",
    "scattered sum",
    "update",
    "one dimension into two",
    "loop",
    "scan over it",
    "branch",
    "cholesky",
)


@pytest.mark.sweep
@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name: str) -> None:
    """What knows of padding is not cut."""
    compiled = check(PROGRAMS[name], X, error=ROUNDING, absolute=2e-5)
    assert name not in KNOW_OF_PADDING or not cuts(compiled)


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["softmax", "product over the padding", "lookup", "loop", "solve"])
def test_gradients(name: str) -> None:
    def loss(x: Any) -> Any:
        return (PROGRAMS[name](x) ** 2).sum()

    check(jax.value_and_grad(loss), X, error=2e-5, absolute=2e-5)


@pytest.mark.sweep
@pytest.mark.parametrize("mesh", [LINE, FIVE, SIX, GRID], ids=lambda mesh: mesh.short())
@pytest.mark.parametrize("size", [1, 2, 3, 6, 7, 11, 16])
def test_sizes(mesh: Mesh, size: int) -> None:
    x = RANDOM.normal(size=(size, 3)).astype(np.float32)

    def f(x: Any) -> Any:
        every = split(x, mesh, tuple(name for name, _ in mesh.axes))
        return every * 2, every.sum(0), every.T @ every, jnp.argmax(every, 0), every.max()

    check(f, x, mesh=mesh, error=ROUNDING, absolute=1e-6)


def test_pooling_and_its_gradient_over_an_uneven_batch() -> None:
    def loss(x: Any) -> Any:
        pooled = lax.reduce_window(rows(x), -jnp.inf, lax.max, (1, 2), (1, 2), "VALID")
        return (pooled**2).sum()

    assert not cuts(check(jax.value_and_grad(loss), X, error=ROUNDING, absolute=1e-6))


def test_what_does_not_know_of_padding_is_told_of() -> None:
    x = np.concatenate([X, X[:1]])  # a prime number of rows
    (text,) = cuts(check(lambda x: jnp.fft.fft(rows(x), axis=0).real, x, error=1e-5, absolute=1e-5))
    assert text.startswith("stablehlo.fft does not know of padding: a dimension of 7 elements")
    assert not cuts(check(lambda x: jnp.sort(rows(x), 1), X))


def test_a_cut_is_a_fallback_where_it_puts_a_dimension_together() -> None:
    def fallbacks(function: Callable[[Any], Any], x: Any) -> list[tuple[str, float]]:
        layouts = (Layout(["x"], LINE),)
        found = check(function, x, mesh=LINE, in_layouts=layouts, error=1e-5, absolute=1e-5)
        assert len(cuts(found)) == 1
        records = found.ledger["records"]
        return [(r["text"], r["bytes"]) for r in records if r["kind"] == "fallback"]

    def energy(x: Any) -> Any:
        return jnp.abs(jax.scipy.signal.stft(x, nperseg=16, noverlap=8)[2]).sum()

    ((text, moved),) = fallbacks(jnp.fft.fft, RANDOM.normal(size=11).astype(np.float32))
    assert "a dimension of 11 elements, which is padded to 16, is put together" in text
    assert moved == 7 * 2 * 4
    assert not fallbacks(jax.grad(energy), RANDOM.normal(size=96).astype(np.float32))

    def in_loop(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda _, v: jnp.tanh(jnp.fft.fft(v).real), x)

    ((text, _),) = fallbacks(in_loop, RANDOM.normal(size=11).astype(np.float32))
    assert text.startswith("stablehlo.fft does not know of padding")


def test_with_sharding_constraint() -> None:
    import jax.sharding as js

    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 4), ("x", "y"))
    spec = js.NamedSharding(mesh, js.PartitionSpec("y"))
    check(lambda x: lax.with_sharding_constraint(x, spec).sum(0), X, error=ROUNDING, absolute=1e-6)


@pytest.mark.parametrize("given", [["x", None], [None, "x"], [("x", "y"), None]])
def test_a_result_is_split_as_the_nearest_of_several_constraints(given: Any) -> None:
    def f(x: Any) -> Any:
        near = lax.fori_loop(0, 2, lambda _, c: jnp.sin(c) - c[::-1], rows(x * 2))
        return near, near.T, rows(x)

    program = jit(f, in_layouts=Layout(given, GRID))
    found = program(X)
    assert [y.layout.short() for y in found] == ['[{"y"}, {}]', '[{}, {"y"}]', '[{"y"}, {}]']
    for y, expected in zip(found, jax.jit(f)(X), strict=True):
        np.testing.assert_allclose(y.to_jax(), expected, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("shape", [(8, 12), (7, 12), (8, 10), (7, 5)])
def test_a_result_has_the_layout_that_its_constraint_asks_for(shape: tuple[int, int]) -> None:
    a = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)

    def constrained(a: Any) -> Any:
        one = split(jnp.sin(a), GRID, "x", "y")
        other = split(jnp.sin(a) * 2, GRID, UNSHARDED, ("x", "y"))
        return one, other, split(split(a + 1, GRID, "y"), GRID, UNSHARDED, "x")

    found = check(constrained, a, error=1e-6).out_layouts
    assert [layout.short() for layout in found] == [
        '[{"x"}, {"y"}]',
        '[{}, {"x", "y"}]',
        '[{}, {"x"}]',
    ]
