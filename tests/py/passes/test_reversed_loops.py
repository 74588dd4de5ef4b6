"""Loops over reversed rows, on 8 devices against one: no array is moved to be reversed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.dialect.layout import UNSHARDED
from tests.py.passes.on_mesh import GRID, LINE, run, sent, split_trips


def averaged(x: Any) -> Any:
    """A moving average of rows."""
    return lax.scan(lambda c, row: (0.75 * c + 0.25 * row,) * 2, jnp.zeros(x.shape[1:]), x)[1]


def squashed(x: Any) -> Any:
    """As that, but for a function that gradients need the rows of."""
    return lax.scan(lambda c, row: (jnp.tanh(0.5 * c + row),) * 2, jnp.zeros(x.shape[1:]), x)[1]


def there_and_back(x: Any, y: Any) -> Any:
    """`filtfilt`: a filter, and the same from the other end."""
    return averaged(averaged(x * y)[::-1])[::-1]


def advantages(x: Any, y: Any) -> Any:
    """Two arrays reversed, one of truth values; a tuple of results, one of which nobody reverses.

    What is carried at the end, too.
    """

    def step(c: Any, row: Any) -> Any:
        after = row[0] + jnp.where(row[1], 0, 0.95 * c)
        return after, (after, c - after)

    last, (rows, changes) = lax.scan(step, y[0], (x[::-1], (y > 1)[::-1]))
    return jnp.flip(rows, 0), last, (changes[::-1] * 2 + rows[::-1]).sum(0)


def between(x: Any, y: Any) -> Any:
    """What is computed between the reversals and the loop, of each row by itself."""
    turned = jnp.exp(-jnp.flip(x, 0)).T * 2 + jnp.flip(y.T, 1)
    weights = jnp.cumsum(jnp.flip(x, (0, 1))[:, 1:4], 1) @ jnp.ones((3, 6))
    weights = weights * (y > 0)[::-1].astype(jnp.float32) + jnp.arange(len(x))[:, None] % 7
    rows = averaged(turned.T + weights)
    return jnp.flip(jnp.sort(rows, 1)[:, ::2] - 1, 0)


def with_numbers(x: Any, y: Any) -> Any:
    """Beside numbers that each trip is given, in either order."""
    n = len(x)
    given = (x[::-1], jnp.arange(n), jnp.arange(n, dtype=jnp.int32)[::-1] % 5, y[::-1])

    def step(c: Any, row: Any) -> Any:
        after = 0.5 * c + row[0] * (row[1] % 3) - row[2] * row[3]
        return after, (after + row[1], row[2] + 1)

    rows, numbers = lax.scan(step, jnp.zeros(6), given)[1]
    return rows[::-1], numbers[::-1]


def columns(x: Any, y: Any) -> Any:
    """The same of each column, by `vmap`."""
    each: Any = lambda u, v: squashed(u[::-1] * v[::-1])[::-1]  # noqa: E731
    return jax.vmap(each, 1, 1)(x, y)


def gradients(x: Any, y: Any) -> Any:
    """The loop of the gradient reads what the other one wrote, and is turned together with it."""
    return jax.grad(lambda x, y: (squashed(squashed(x * y)[::-1])[::-1] * y).sum(), (0, 1))(x, y)


def blocks(x: Any, y: Any) -> Any:
    """Windows of rows, an element of a row, and two rows a trip that are written."""
    x, begin = x[::-1], y[::-1]

    def body(i: Any, carry: Any) -> Any:
        c, out = carry
        rows = lax.dynamic_slice_in_dim(x, 2 * i, 3)
        c = 0.5 * c + jnp.cumsum(rows, 0)[1] - x[2 * i, 4]
        return c, lax.dynamic_update_slice_in_dim(out, rows[1:] + c, 2 * i, 0)

    out = lax.fori_loop(0, (len(x) - 1) // 2, body, (jnp.zeros(6), begin))[1]
    return out[::-1]


def in_place(x: Any, y: Any) -> Any:
    """Rows that the loop wrote, or that it adds to."""
    x, begin = jnp.flip(x, 0), jnp.flip(y, 0)

    def body(i: Any, carry: Any) -> Any:
        out, added = carry
        row = 0.5 * out[i - 1] + x[i]
        return out.at[i].set(row), added.at[i].add(row - out[i])

    out, added = lax.fori_loop(1, len(x), body, (begin, begin / 2))
    return out[::-1], added[::-1]


def every_turn(x: Any, y: Any) -> Any:
    """Inside of another loop, of what that carries and of what it does not."""
    body: Any = lambda _, x: averaged(x[::-1] + y[::-1])[::-1] - x  # noqa: E731
    return lax.fori_loop(0, 3, body, x)


PROGRAMS: list[Callable[..., Any]] = [
    there_and_back,
    advantages,
    between,
    with_numbers,
    columns,
    gradients,
    blocks,
    in_place,
    every_turn,
]


@pytest.mark.sweep
@pytest.mark.parametrize(("n", "mesh", "axes", "program"), split_trips(PROGRAMS))
def test_nothing_is_reversed(n: int, mesh: Any, axes: Any, program: Callable[..., Any]) -> None:
    x, y = np.random.default_rng(n).normal(size=(2, n, 6)).astype(np.float32)
    rows = [axes, UNSHARDED]
    compiled = run(program, mesh, [rows, rows], x, y, error=2e-5, absolute=2e-5)
    assert sent(compiled) < 0.25 * x.nbytes


def both_ways(x: Any, y: Any) -> Any:
    """Rows that are read from both ends, inside of the loop and behind it."""
    turned = x[::-1]

    def step(c: Any, row: Any) -> Any:
        after = 0.5 * c + row[0] - row[1] * turned.mean(0)
        return after, (after, 2 * c)

    rows, others = lax.scan(step, y[0], (turned, y))[1]
    return rows, rows[::-1], others[::-1] + x, jnp.flip(turned * rows, 0), turned[1] - x


def weighed(x: Any, y: Any) -> Any:
    """Gradients that multiply rows of either order."""
    program: Any = lambda x, y: (squashed(squashed(x)[::-1] * y)[::-1] * y).sum()  # noqa: E731
    return jax.grad(program, (0, 1))(x, y)


def looked_at(x: Any, y: Any) -> Any:
    """A loop that writes rows and reads all of them, which must stay as it is."""

    def body(i: Any, carry: Any) -> Any:
        c, out = carry
        c = 0.5 * c + x[::-1][i] + out.mean(0)
        return c, out.at[i].set(c)

    return lax.fori_loop(0, len(x), body, (y[0], y[::-1]))[1][::-1]


@pytest.mark.sweep
@pytest.mark.parametrize("program", [both_ways, weighed, looked_at])
@pytest.mark.parametrize(("n", "mesh", "axes"), [(166, GRID, "y"), (64, LINE, "x")])
def test_rows_of_either_order(n: int, mesh: Any, axes: Any, program: Callable[..., Any]) -> None:
    x, y = np.random.default_rng(n).normal(size=(2, n, 6)).astype(np.float32)
    rows = [axes, UNSHARDED]
    run(program, mesh, [rows, rows], x, y, error=2e-5, absolute=2e-5, out=rows if n == 64 else None)


@pytest.mark.sweep
@pytest.mark.parametrize("n", [0, 1, 2, 9, 64, 203])
@pytest.mark.parametrize("dtype", [np.int8, np.uint32, bool, jnp.bfloat16, np.complex64])
def test_rows_of_any_type(n: int, dtype: Any) -> None:
    x = jnp.asarray(np.random.default_rng(n).integers(0, 2, (n, 3)).astype(dtype))
    add: Any = jnp.logical_xor if dtype is bool else jnp.add

    def program(x: Any) -> Any:
        last, rows = lax.scan(lambda c, row: (add(c, row),) * 2, jnp.ones(3, dtype), jnp.flip(x, 0))
        return last, rows[::-1]

    run(program, LINE, [["x", UNSHARDED]], x)


def test_what_no_row_says_stays() -> None:
    """Values that are not numbers, and the sign of zero, stand where they stood."""
    x = np.zeros((203, 4), np.float32)
    x[[3, 77, 150], [0, 1, 2]] = np.nan, np.inf, -0.0
    compiled = run(lambda x, y: 1 / there_and_back(x, y), LINE, [["x", UNSHARDED]] * 2, x, x + 1)
    assert sent(compiled) < 0.25 * x.nbytes
