"""Loops whose trips do anything to what they carry, along split dimensions, on 8 devices and one.

Integers and what is selected are exact; sums of rounded numbers may differ in their last digits,
where products are summed up in another order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.dialect.layout import UNSHARDED
from tests.py.passes.on_mesh import GRID, LINE, one_by_one, run, sent, split_trips

ROWS = ["x", UNSHARDED]
WEIGHTS = np.random.default_rng(3).normal(size=(6, 6)).astype(np.float32)


def normal(n: int) -> Any:
    return np.random.default_rng(0).normal(size=(n, 6)).astype(np.float32)


def forward(x: Any) -> Any:
    """The likelihood under a hidden Markov model, from the first element on."""

    def step(c: Any, z: Any) -> Any:
        c = jax.nn.logsumexp(c[:, None] + WEIGHTS, axis=0) + z
        return c, c

    last, each = lax.scan(step, x[0], x[1:])
    return jax.nn.logsumexp(last), each


def viterbi(x: Any) -> Any:
    """The likeliest states: the way back reads at places that it carries."""

    def step(c: Any, z: Any) -> Any:
        scores = c[:, None] + WEIGHTS
        return scores.max(0) + z, scores.argmax(0)

    last, before = lax.scan(step, jnp.zeros(6), x)
    way = lax.scan(lambda s, row: (row[s], s), last.argmax(), before, reverse=True)
    return last.max(), *way


def recurrent(x: Any) -> Any:
    """A long short-term memory of six units."""

    def step(carry: Any, z: Any) -> Any:
        h, c = carry
        pick, keep, give, new = jnp.split(jnp.tile(z, 4) + jnp.tile(WEIGHTS, (1, 4)).T @ h, 4)
        c = jax.nn.sigmoid(keep) * c + jax.nn.sigmoid(pick) * jnp.tanh(new)
        h = jax.nn.sigmoid(give) * jnp.tanh(c)
        return (h, c), h

    return lax.scan(step, (jnp.zeros(6), jnp.ones(6)), x)


def automaton(x: Any) -> Any:
    """A state that reads its next one from a table, a tape that it writes, and how often it did."""
    table = np.random.default_rng(1).integers(0, 5, (5, 3))

    def step(carry: Any, z: Any) -> Any:
        state, tape, total, n = carry
        state = jnp.asarray(table)[state, jnp.sum(z > 0) % 3]
        row = lax.dynamic_slice(tape, (state, 0), (1, 2)) + jnp.round(z[None, :2])
        tape = lax.dynamic_update_slice(tape, row, (2 * state - 1, 0))  # places beyond both ends
        return (state, tape, total + tape.sum(), n + 2), state

    return lax.scan(step, (1, jnp.zeros((5, 2)), 0.0, 3), x)


def branching(x: Any) -> Any:
    """Branches that a trip takes by what is carried, by its number, or always."""

    def step(carry: Any, z: Any) -> Any:
        h, n = carry
        half: Any = lambda _, h: h / 2 + z[::-1]  # noqa: E731
        choices: Any = (
            lambda h: jnp.cumsum(h - z) / 4,
            jnp.sort,
            lambda h: lax.fori_loop(0, 3, half, h),
        )
        h = lax.switch((h.sum() > 0) + (z[0] > 0).astype(jnp.int32), choices, h)
        h = lax.cond(n % 3 == 0, lambda h: h - z.max(), lambda h: h.at[n % 6].add(1), h)
        h = lax.cond(WEIGHTS[0, 0] > 5, lambda h: h, jnp.tanh, h)
        return (h, n + 1), h[::-1]

    return lax.scan(step, (jnp.zeros(6), 0), x)


def drawing(x: Any) -> Any:
    """A chain of Metropolis: it splits its key in each trip."""

    def step(carry: Any, z: Any) -> Any:
        key, h = carry
        key, one, other = jax.random.split(key, 3)
        new = h + jnp.round(4 * jax.random.normal(one, (6,))) / 4
        odds = jnp.round(8 * jnp.sum(jnp.abs(h - z) - jnp.abs(new - z)))
        h = jnp.where(jnp.round(8 * jnp.log(jax.random.uniform(other))) < odds, new, h)
        return (key, h), (h, odds)

    return lax.scan(step, (jax.random.key_data(jax.random.key(5)), jnp.zeros(6)), jnp.round(x))[1]


def by_hand(x: Any) -> Any:
    """Written in integers, from the end on, at places that the loop counts; it forgets nothing."""

    def body(k: Any, carry: Any) -> Any:
        h, out = carry
        row = lax.dynamic_index_in_dim(x, len(x) - 1 - k, keepdims=False)
        h = (5 * h[::-1] + jnp.round(row * 8).astype(jnp.int32)) % 17
        return h, out.at[len(x) - 1 - k].set(h.astype(jnp.int8))

    return lax.fori_loop(0, len(x), body, (jnp.zeros(6, int), jnp.zeros(x.shape, jnp.int8)))


PROGRAMS: list[Callable[..., Any]] = [
    forward,
    viterbi,
    recurrent,
    automaton,
    branching,
    drawing,
    by_hand,
]


@pytest.mark.sweep
@pytest.mark.parametrize(("n", "mesh", "axes", "program"), split_trips(PROGRAMS))
def test_no_more_than_the_carried_values_is_sent(
    n: int, mesh: Any, axes: Any, program: Callable[..., Any]
) -> None:
    x = normal(n)
    compiled = run(program, mesh, [[axes, UNSHARDED]], x, error=2e-5, absolute=2e-5)
    assert sent(compiled) < x.nbytes / 4
    assert mesh is GRID or one_by_one(compiled)


def test_a_loop_beside_one_that_was_rewritten() -> None:
    """What the operations of the second tell of shards is known once the first is erased."""

    def program(x: Any) -> Any:
        def step(c: Any, z: Any) -> Any:
            scores = c[:, :, None] + WEIGHTS
            return scores.max(1) + z, scores.argmax(1)

        def back(state: Any, row: Any) -> Any:
            return jnp.take_along_axis(row, state[:, None], 1)[:, 0], state

        last, before = lax.scan(step, x[:, 0], jnp.swapaxes(x[:, 1:], 0, 1))
        return lax.scan(back, last.argmax(-1), before, reverse=True)[1].T, last.max(-1)

    x = normal(8 * 128).reshape(8, 128, 6)
    compiled = run(program, GRID, [["x", "y", UNSHARDED]], x, error=2e-5)
    assert sent(compiled) < x.nbytes / 8


@pytest.mark.parametrize("program", [forward, recurrent], ids=lambda f: f.__name__)
def test_gradients(program: Callable[..., Any]) -> None:
    def loss(x: Any) -> Any:
        return sum(jnp.sum(jnp.sin(y)) for y in jax.tree.leaves(program(x)))

    x = normal(192)
    compiled = run(jax.grad(loss), LINE, [ROWS], x, error=1e-4, absolute=1e-4)
    assert sent(compiled) < x.nbytes / 4


def test_a_trip_of_much_work_is_divided() -> None:
    """Each device computes an eighth of all carried rows, and not one block after another."""

    def program(x: Any, h: Any) -> Any:
        return lax.scan(lambda h, z: (jnp.tanh(h @ WEIGHTS) + z, None), h, x)[0]

    compiled = run(
        program, LINE, [ROWS, None], normal(64), np.ones((1024, 6), np.float32), error=1e-5
    )
    assert not one_by_one(compiled)


def test_blocks_that_might_not_end_are_not_run_ahead() -> None:
    """What a block is given ahead of its turn may be anything."""

    def program(x: Any) -> Any:
        def step(c: Any, z: Any) -> Any:
            c = lax.while_loop(lambda s: jnp.max(s) > 1, lambda s: s / 2, c + jnp.abs(z))
            return jnp.cumsum(c), c

        return lax.scan(step, jnp.zeros(6), x)

    assert not one_by_one(run(program, LINE, [ROWS], normal(64), error=1e-5))


def test_a_loop_deep_in_a_branch_that_is_not_taken_is_not_run_ahead() -> None:
    """It may never end: no shard may run it for a block that does not take the branch."""

    def program(x: Any, n: Any) -> Any:
        def halved(h: Any) -> Any:
            return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] / 2), (0, h))[1]

        def step(h: Any, z: Any) -> Any:
            nested = lambda h: lax.fori_loop(0, 2, lambda _, h: halved(h), h)  # noqa: E731
            h = lax.cond(jnp.max(h) > 1, nested, lambda h: jnp.tanh(jnp.cumsum(h)) + z, h)
            return h, h

        return lax.scan(step, jnp.zeros(6), x)

    assert not one_by_one(run(program, LINE, [ROWS, None], normal(192), 3, error=1e-5))


def test_places_of_a_narrow_type() -> None:
    """Some of them beyond both ends."""

    def step(carry: Any, z: Any) -> Any:
        place, tape = carry
        new = jnp.tanh(jnp.cumsum(z)[-1:]) + lax.dynamic_slice(tape, (place,), (1,))
        tape = lax.dynamic_update_slice(tape, new, (place,))
        return (place * jnp.int8(3) + (z[0] > 0).astype(jnp.int8), tape), place

    def program(x: Any) -> Any:
        return lax.scan(step, (jnp.int8(1), jnp.zeros(50)), x)

    run(program, LINE, [ROWS], normal(800), error=1e-5, absolute=1e-5)
