"""Loops that carry one vector joined of several arrays, on 8 devices and on one.

All numbers are whole, or halves of such, and few: sums are exact in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental.ode import odeint
from jax.flatten_util import ravel_pytree

from dtensor.dialect.layout import UNSHARDED
from dtensor.dialect.mesh import Mesh
from tests.py.passes.on_mesh import GRID, LINE, numbers, run, sent
from tests.py.uneven.on_meshes import FIVE

TRIPS = 4


def flat(u: Any, v: Any, b: Any) -> Any:
    return ravel_pytree((u, v, b))


def looped(u: Any, v: Any, b: Any) -> Any:
    """Each part moves by another, and by what is counted of all."""
    start, parts = flat(u, v, b)

    def step(carry: Any, _: Any) -> Any:
        u, v, b = parts(carry)
        moved = flat(jnp.sign(u + b[0]), jnp.tanh(v) > 0, jnp.sum(u, 0)[: len(b)])[0]
        after = jnp.clip(carry - 2 * moved.astype(carry.dtype), -4, 4)
        return after, (jnp.sum(after), jnp.max(after), jnp.dot(moved, moved), jnp.all(after < 4))

    last, counts = lax.scan(step, start, None, length=TRIPS)
    return parts(last), counts


def kept(u: Any, v: Any, b: Any) -> Any:
    """What is carried is written to rows of a history, and read of it again."""
    start, parts = flat(u, v, b)

    def step(i: Any, carry: Any) -> Any:
        now, history = carry
        weights = jnp.arange(TRIPS, dtype=now.dtype) % 3 - 1
        after = jnp.clip(weights @ history + now, -8, 8)
        u, v, b = parts(after)
        after = flat(u - 1, v[::-1], b)[0]
        history = jnp.roll(history, 1, 0).at[0].set(after)
        return after, lax.dynamic_update_slice(history, 2 * now[None], (i, 0))

    last, history = lax.fori_loop(0, TRIPS, step, (start, jnp.zeros((TRIPS, len(start)))))
    return parts(last), jax.vmap(parts)(history), jnp.stack([last, last]).reshape(2, -1)[1]


def until_small(u: Any, v: Any, b: Any) -> Any:
    """The loop ends when all is small, and halves what is large in some trips alone."""
    start, parts = flat(u, v, b)

    def step(carry: Any) -> Any:
        n, now, before = carry
        now = lax.cond(n % 2 == 0, lambda x: x / 2, lambda x: x - before / 4, now)
        u, v, b = parts(now)
        now, before = lax.optimization_barrier((flat(u, v - v[0], b)[0], jnp.abs(now)))
        return n + 1, now, before

    found = lax.while_loop(
        lambda carry: (jnp.sum(jnp.abs(carry[1])) > 1) & (carry[0] < 9), step, (0, start, start)
    )
    return found[0], parts(found[1]), parts(found[2])


def gradient(u: Any, v: Any, b: Any) -> Any:
    """Backwards through the loop, which keeps the vector of each trip."""

    def loss(values: Any) -> Any:
        start, parts = flat(*values)

        def step(carry: Any, _: Any) -> Any:
            u, v, b = parts(carry)
            return flat(jnp.maximum(u, 1 - u), v * v[:, :1], b - jnp.max(v))[0] / 2, None

        last = lax.scan(step, start, None, length=2)[0]
        return jnp.sum(last * (jnp.arange(len(last)) % 3))

    return jax.grad(loss)((u, v, b))


def turned(u: Any, v: Any, b: Any) -> Any:
    """Every trip turns the vector by a place, pads and cuts it, and numbers its elements."""
    start, parts = flat(u, v, b)

    def step(now: Any, _: Any) -> Any:
        now = jnp.roll(now, 1) + jnp.arange(len(now)) % 2
        now = jnp.pad(now[2:], (1, 1))
        u, v, b = parts(now)
        return flat(u, v - 1, b)[0], now[3]

    last, some = lax.scan(step, start, None, length=TRIPS)
    return parts(last), some


def ordered(u: Any, v: Any, b: Any) -> Any:
    """A sort needs it whole in every trip."""
    start, parts = flat(u, v, b)

    def step(now: Any, _: Any) -> Any:
        u, v, b = parts(jnp.sort(now))
        return flat(u - 1, v, b)[0], jnp.argmax(now)

    last, some = lax.scan(step, start, None, length=TRIPS)
    return parts(last), some


def noisy(u: Any, v: Any, b: Any) -> Any:
    """Random numbers of the vector's length."""
    start, parts = flat(u, v, b)

    def step(now: Any, key: Any) -> Any:
        u, v, b = parts(now + jax.random.randint(key, now.shape, 0, 3))
        return flat(jnp.abs(u), v, b)[0] / 2, None

    last, _ = lax.scan(step, start, jax.random.split(jax.random.key(3), TRIPS))
    return parts(last)


def several(u: Any, v: Any, b: Any) -> Any:
    """Two vectors, one joined within the other, in a loop in a loop."""
    inner, inner_parts = flat(u, v, b)
    outer, outer_parts = ravel_pytree((inner, v, u))

    def step(carry: Any, _: Any) -> Any:
        outer, n = carry
        flat, v, u = outer_parts(outer)

        def again(_: Any, flat: Any) -> Any:
            one, two, three = inner_parts(flat)
            return ravel_pytree((two.T, one, three))[0] - 1

        flat = lax.fori_loop(0, n, again, flat)
        return (ravel_pytree((flat, v - 1, jnp.sign(u)))[0], n), jnp.sum(outer)

    (last, _), sums = lax.scan(step, (outer, 2), None, length=2)
    return [outer_parts(last), inner_parts(outer_parts(last)[0])], sums


def gates(u: Any, v: Any, b: Any) -> Any:
    """What is joined of what a loop carries and reads, and multiplied with a matrix."""
    weights = jnp.concatenate([u, u - 1, v.T[: u.shape[0] // 2]])

    def step(h: Any, x: Any) -> Any:
        h = jnp.sign(jnp.concatenate([h, x[: v.shape[1]]]) @ weights[: len(h) + v.shape[1]])
        return jnp.concatenate([h, h])[: len(h)] + x[0], h

    return lax.scan(step, jnp.ones_like(u[0]), jnp.stack([jnp.arange(64.0) % 3] * TRIPS)), b


def placed(u: Any, v: Any, b: Any) -> Any:
    """Elements of the whole are written by their places in it."""
    start, parts = flat(u, v, b)
    start = start.at[jnp.array([1, 2])].set(7.0).at[-1].add(2.0)
    start = lax.dynamic_update_slice(start, jnp.full(2, -3.0), (4,))

    def step(carry: Any, _: Any) -> Any:
        u, v, b = parts(carry)
        return jnp.clip(carry - flat(u, 2 * v, -b)[0], -8, 8), None

    return parts(lax.scan(step, start, None, length=TRIPS)[0])


def grouped(u: Any, v: Any, b: Any) -> Any:
    """Rows are multiplied with the matrix of their group: by their places."""
    start, parts = flat(u, v, b)
    rows, tables = jnp.array([len(start) - 3, 2, 1]), jnp.arange(3.0).reshape(3, 1, 1)

    def step(carry: Any, _: Any) -> Any:
        u, v, b = parts(lax.ragged_dot(carry[:, None], tables, rows)[:, 0])
        return jnp.clip(flat(u + 1, 2 * v, 1 - b)[0], -8, 8), None

    return parts(lax.scan(step, start, None, length=TRIPS)[0])


PROGRAMS: list[Callable[..., Any]] = [looped, kept, until_small, gradient, turned, noisy]
LAYOUTS: list[tuple[Mesh, Any, Any, Any]] = [
    (LINE, ["x", UNSHARDED], [UNSHARDED, "x"], [UNSHARDED]),
    (GRID, ["x", "y"], [UNSHARDED, "y"], ["x"]),
    (GRID, [("y", "x"), UNSHARDED], [UNSHARDED, UNSHARDED], [UNSHARDED]),
    (FIVE, ["x", UNSHARDED], ["x", UNSHARDED], [UNSHARDED]),
]


def arrays(*shapes: tuple[int, ...]) -> list[Any]:
    return [numbers(shape) - 1 for shape in shapes]


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("program", "layout"), [(p, k) for p in PROGRAMS for k in range(len(LAYOUTS))]
)
def test_parts_are_computed_as_the_whole(program: Any, layout: int) -> None:
    """Of sizes that divide, if two kinds of layouts take turns, and of others."""
    mesh, *specs = LAYOUTS[layout]
    is_even = (layout + PROGRAMS.index(program)) % 2 == 0
    shapes = [(16, 8), (8, 24), (8,)] if is_even else [(7, 9), (5, 8), (3,)]
    run(program, mesh, specs, *arrays(*shapes))


@pytest.mark.sweep
@pytest.mark.parametrize(
    "program", [ordered, several, gates, placed, grouped], ids=lambda f: f.__name__
)
def test_what_is_needed_whole_is_whole(program: Any) -> None:
    mesh, *specs = LAYOUTS[1]
    run(program, mesh, specs, *arrays((16, 8), (8, 24), (8,)))


def test_no_part_is_gathered() -> None:
    rows, columns, whole = LAYOUTS[0][1:]
    values = arrays((128, 8), (8, 256), (8,))
    assert sent(run(until_small, LINE, [rows, columns, whole], *values)) < 200
    assert not sent(run(noisy, LINE, [rows, columns, whole], *values))
    compiled = run(looped, LINE, [rows, rows, whole], *arrays((128, 8), (64, 16), (8,)))
    assert sent(compiled) < 400  # sums alone, of rows and of all


def test_odeint_carries_what_it_joins() -> None:
    """Its adjoint joins the state, what depends on it, and what depends on the weights."""

    def program(state: Any, weights: Any) -> Any:
        times = jnp.array([0.0, 0.1, 0.5])

        def loss(weights: Any) -> Any:
            turn = lambda y, t, weights: jnp.tanh(y @ weights)  # noqa: E731
            return jnp.sum(odeint(turn, state, times, weights)[-1] ** 2)

        return jax.grad(loss)(weights)

    random = np.random.default_rng(0)
    state, weights = (random.normal(size=s).astype(np.float32) for s in ((1024, 8), (8, 8)))
    rows = ["x", UNSHARDED]
    compiled = run(program, LINE, [rows, None], state, weights, error=1e-4, absolute=1e-4)
    assert max(c.bytes for c in compiled.collectives) <= 2 * weights.nbytes  # sums alone
    assert not [r for r in compiled.ledger["records"] if r["kind"] == "not_parallel"]
