"""Loops that take rows by their numbers, and read rows that they wrote, on 8 devices and one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.dialect.layout import UNSHARDED
from tests.py.passes.on_mesh import LINE, run, sent, split_trips


def filtered(x: Any, y: Any) -> Any:
    """A recursive filter of the second order, behind two rows that stay."""
    body: Any = lambda i, y: y.at[i].set(0.4 * y[i - 1] - 0.3 * y[i - 2] + x[i])  # noqa: E731
    return lax.fori_loop(2, len(x), body, y)


def substituted(x: Any, y: Any) -> Any:
    """Backward substitution: the last row comes first, and is overwritten from its own."""

    def body(k: Any, y: Any) -> Any:
        i = len(x) - 2 - k
        return y.at[i].set(jnp.tanh(y[i] - 0.5 * y[i + 1]) + x[i])

    return lax.fori_loop(0, len(x) - 1, body, y)


def relaxed(x: Any, y: Any) -> Any:
    """A sweep of Gauss and Seidel: new rows from above, old ones from below; the ends stay."""
    body: Any = lambda i, y: y.at[i].set((y[i - 1] + y[i + 1] + jnp.cumsum(x[i])) / 3)  # noqa: E731
    return lax.fori_loop(1, len(x) - 1, body, y)


def added(x: Any, y: Any) -> Any:
    """Running sums in place, by slices, and how often a sum was positive."""

    def body(i: Any, carry: Any) -> Any:
        y, n = carry
        row = lax.dynamic_slice(y, (i - 3, 0), (1, 6)) + x[i]
        return lax.dynamic_update_slice(y, row, (i, 0)), n + (row > 0).sum()

    return lax.fori_loop(3, len(x), body, (y, 0))


def tridiagonal(x: Any, y: Any) -> Any:
    """The algorithm of Thomas: two arrays, each of which reads what it and the other wrote."""
    upper = 0.25 * jnp.tanh(x)

    def forwards(i: Any, carry: Any) -> Any:
        c, d = carry
        under = 2.0 - 0.5 * c[i - 1]
        return c.at[i].set(upper[i] / under), d.at[i].set((d[i] - 0.5 * d[i - 1]) / under)

    c, d = lax.fori_loop(1, len(x), forwards, (upper / 2, y))

    def backwards(k: Any, d: Any) -> Any:
        i = len(x) - 2 - k
        return d.at[i].add(-c[i] * d[i + 1])

    return lax.fori_loop(0, len(x) - 1, backwards, d)


def block_sums(x: Any, y: Any) -> Any:
    """Five rows a trip: their running sums, from half of what the trip before it ended with."""

    def body(i: Any, carry: Any) -> Any:
        y, total = carry
        sums = jnp.cumsum(lax.dynamic_slice_in_dim(x, 5 * i, 5), 0) + total / 2
        old = lax.dynamic_slice_in_dim(y, 5 * i, 5)
        return lax.dynamic_update_slice_in_dim(y, sums - old, 5 * i, 0), sums[-1]

    return lax.fori_loop(0, len(x) // 5, body, (y, jnp.zeros(6)))


def turned_blocks(x: Any, y: Any) -> Any:
    """Five rows a trip, from the end on, of the five that the trip before wrote, turned."""

    def body(k: Any, y: Any) -> Any:
        i = 5 * (len(x) // 5 - 2 - k)
        after = lax.dynamic_slice_in_dim(y, i + 5, 5)[::-1]
        rows = jnp.tanh(jnp.sort(after, 1) + lax.dynamic_slice_in_dim(x, i, 5))
        return lax.dynamic_update_slice_in_dim(y, rows, i, 0)

    return lax.fori_loop(0, len(x) // 5 - 1, body, y)


def windows(x: Any, y: Any) -> Any:
    """Windows of three rows, of which every trip reads two again, and an element of a row."""

    def body(i: Any, y: Any) -> Any:
        row = lax.dynamic_slice_in_dim(x, i - 1, 3).mean(0)
        return y.at[i].set(row * jnp.tanh(y[i - 1]) + x[i, 2] - x[i + 1, i % 6])

    return lax.fori_loop(1, len(x) - 1, body, y)


def in_pairs(x: Any, y: Any) -> Any:
    """Two rows a trip of one array and every other one of another, the last pair first."""

    def body(k: Any, c: Any) -> Any:
        i = len(x) // 2 - 1 - k
        return 0.5 * c + x[2 * i] * x[2 * i + 1] - y[2 * i]

    return lax.fori_loop(0, len(x) // 2, body, jnp.ones(6))


def by_numbers(x: Any, y: Any) -> Any:
    """Rows at numbers that the loops are given: from the first on, from the last on, or mapped."""
    numbers = jnp.arange(len(x))
    upwards = lax.scan(lambda c, i: (0.5 * c + x[i], c - i % 3), y[0], numbers)
    downwards, _ = lax.scan(lambda c, i: (0.5 * c - x[i] + i % 3, None), y[1], numbers[::-1])
    return upwards, downwards, lax.map(lambda i: x[i] * y[i] + i, numbers)


def clamped(x: Any, y: Any) -> Any:
    """From the first row on, which reads itself, and from the last one on: none is before it."""

    def upwards(i: Any, y: Any) -> Any:
        return y.at[i].set(0.5 * y[jnp.maximum(i - 1, 0)] + x[i])

    def downwards(i: Any, y: Any) -> Any:
        k = len(x) - 1 - i
        before = jnp.where(i > 0, y[jnp.minimum(k + 1, len(x) - 1)], 2.0)
        return y.at[k].set(0.9 * before - x[k])

    y = lax.fori_loop(0, len(x), upwards, y)
    return y, lax.fori_loop(0, len(x), downwards, jnp.zeros_like(y))


def from_the_last(x: Any, y: Any) -> Any:
    """Of two rows before, of which the first trips read the last ones, that count from there."""
    body: Any = lambda i, y: y.at[i].set(0.4 * y[i - 1] - 0.3 * y[i - 2] + x[i])  # noqa: E731
    return lax.fori_loop(0, len(x), body, y)


def held_back(x: Any, y: Any) -> Any:
    """Of rows that trips before wrote, at times of the one before that: they are not carried."""

    def body(i: Any, y: Any) -> Any:
        row = y[jnp.maximum(i - 1, 0)] - y[jnp.maximum(i - 2, 0)] + y[jnp.minimum(i + 1, 9)]
        return y.at[i].set(0.3 * row + x[i])

    return lax.fori_loop(0, len(x), body, y)


PROGRAMS: list[Callable[..., Any]] = [
    filtered,
    substituted,
    relaxed,
    added,
    tridiagonal,
    block_sums,
    turned_blocks,
    windows,
    in_pairs,
    by_numbers,
    clamped,
    from_the_last,
]


@pytest.mark.sweep
@pytest.mark.parametrize(("n", "mesh", "axes", "program"), split_trips(PROGRAMS))
def test_rows_are_carried(n: int, mesh: Any, axes: Any, program: Callable[..., Any]) -> None:
    x, y = np.random.default_rng(n).normal(size=(2, n, 6)).astype(np.float32)
    rows = [axes, UNSHARDED]
    compiled = run(program, mesh, [rows, rows], x, y, error=2e-5, absolute=2e-5)
    assert sent(compiled) < x.nbytes / 2


def test_rows_that_are_not_carried() -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 64, 6)).astype(np.float32)
    run(held_back, LINE, [["x", UNSHARDED]] * 2, x, y, error=2e-5, absolute=2e-5)


@pytest.mark.parametrize("apart", [5, -5])
def test_rows_that_were_written_long_ago_are_read_of_the_array(apart: int) -> None:
    """Five trips ago, which is too many to carry; or five trips ahead, which none has written."""

    def program(y: Any) -> Any:
        begin, end = max(apart, 0), len(y) + min(apart, 0)
        return lax.fori_loop(begin, end, lambda i, y: y.at[i].set(y[i - apart] - y[i]), y)

    y = np.random.default_rng(1).integers(-4, 5, (192, 6)).astype(np.int32)
    run(program, LINE, [["x", UNSHARDED]], y)


def test_what_else_reads_the_array() -> None:
    """The row that was written just now, all of the array, and a row at a place nobody knows."""

    def program(x: Any, y: Any, place: Any) -> Any:
        def newest(i: Any, y: Any) -> Any:
            y = y.at[i].set(x[i] - y[i - 1])
            return y.at[i].add(jnp.abs(y[i]))

        def whole(i: Any, y: Any) -> Any:
            return y.at[i].set(x[i] - y.max(0))

        def anywhere(i: Any, y: Any) -> Any:
            return y.at[i].set(x[i] - y[(place + i) % len(y)])

        return [lax.fori_loop(1, len(x), f, y) for f in (newest, whole, anywhere)]

    x, y = np.random.default_rng(1).integers(-4, 5, (2, 64, 6)).astype(np.int32)
    rows = ["x", UNSHARDED]
    run(program, LINE, [rows, rows, None], x, y, 7)


def test_a_loop_of_which_nothing_but_known_numbers_is_read() -> None:
    def program(x: Any) -> Any:
        def body(i: Any, carry: Any) -> Any:
            y, numbers = carry
            return y.at[i].add(jnp.abs(x[i]) + y[i - 1]), numbers.at[i].set(3 * i + 1)

        numbers = lax.fori_loop(0, len(x), body, (x, jnp.zeros(len(x), int)))[1]
        return numbers, jnp.cumsum(x, 0)

    x = np.random.default_rng(1).integers(-4, 5, (64, 6)).astype(np.int32)
    run(program, LINE, [["x", UNSHARDED]], x)


def test_the_gradient() -> None:
    x, y = np.random.default_rng(2).normal(size=(2, 192, 6)).astype(np.float32)
    rows = ["x", UNSHARDED]
    loss = jax.grad(lambda x, y: jnp.sum(jnp.sin(filtered(x, y))), argnums=(0, 1))
    run(loss, LINE, [rows, rows], x, y, error=1e-4, absolute=1e-4)


def read_only(x: Any, y: Any) -> Any:
    """Rows at numbers, and five rows at a time: their gradients are added to arrays of zeros."""
    numbers = jnp.arange(len(x))
    upwards = lax.scan(lambda c, i: (0.5 * c + x[i] * y[i, 1], c), jnp.ones(6), numbers)[1]
    sums = lax.map(lambda i: jnp.tanh(lax.dynamic_slice_in_dim(x, 5 * i, 5)).sum(0), numbers[:38])
    return upwards, sums


@pytest.mark.sweep
@pytest.mark.parametrize("program", [read_only, by_numbers], ids=lambda f: f.__name__)
def test_what_is_added_to_rows_in_gradients(program: Callable[..., Any]) -> None:
    def loss(x: Any, y: Any) -> Any:
        return sum(jnp.sum(jnp.sin(value)) for value in jax.tree.leaves(program(x, y)))

    x, y = np.random.default_rng(2).normal(size=(2, 192, 6)).astype(np.float32)
    rows = ["x", UNSHARDED]
    compiled = run(
        jax.grad(loss, argnums=(0, 1)), LINE, [rows, rows], x, y, error=1e-4, absolute=1e-4
    )
    assert sent(compiled) < x.nbytes / 2


def test_a_table_is_read_against_the_rows() -> None:
    """Every third number of a table, the last one first, while the rows come from the first on."""

    def program(x: Any) -> Any:
        n, table = len(x), jnp.arange(3 * len(x)) % 7
        downwards = lax.fori_loop(0, n, lambda i, c: x[i] * table[3 * (n - 1 - i)] - 2 * c, x[0])
        return downwards, lax.fori_loop(0, n, lambda i, c: x[~i] * table[3 * i + 1] - 2 * c, x[0])

    x = np.random.default_rng(3).integers(-4, 5, (96, 6)).astype(np.int32)
    run(program, LINE, [["x", UNSHARDED]], x)


def test_rows_are_added_to_as_they_are_where_there_are_no_blocks() -> None:
    """The inner loop ends when its numbers say so: all shards run all trips, and keep their own."""

    def halved(row: Any) -> Any:
        return lax.while_loop(lambda row: jnp.abs(row).max() > 1, lambda row: row / 2, row)

    def program(row: Any, y: Any) -> Any:
        return lax.fori_loop(0, len(y), lambda i, y: y.at[i].add(halved(row + i)), y)

    row, y = np.arange(6, dtype=np.float32), np.ones((96, 6), np.float32)
    compiled = run(program, LINE, [None, ["x", UNSHARDED]], row, y, error=1e-6)
    assert sent(compiled) == 0


@pytest.mark.parametrize(
    ("kind", "step"), [("uint64", 3), ("int64", 1 << 62), ("uint64", 1 << 63)], ids=str
)
def test_counters_that_overflow(kind: str, step: int) -> None:
    """Counters of 64 bits, from more than a signed one holds on, or beyond that at the end."""

    def program(x: Any) -> Any:
        one, begin = jnp.asarray(step, kind), jnp.asarray((np.iinfo(kind).max >> 1) + 1, kind)

        def body(i: Any, carry: Any) -> Any:
            count, total = carry
            return count + one, x[i] * (count % 7).astype(x.dtype) - 2 * total

        return lax.fori_loop(0, len(x), body, (begin, x[0]))

    x = np.random.default_rng(5).integers(-4, 5, (64, 6)).astype(np.int32)
    with jax.enable_x64(True):
        run(program, LINE, [["x", UNSHARDED]], x)
