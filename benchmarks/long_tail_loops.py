"""Loops over a split dimension, for `benchmarks.long_tail`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from benchmarks.against_jax.workload import array
from benchmarks.long_tail_row import LONG, ROWS, SLICE, Row, row


def recurrence_loop(a: jax.Array, b: jax.Array) -> jax.Array:
    """h[t] = a[t] h[t-1] + b[t], one after another."""

    def step(h: Any, ab: Any) -> Any:
        h = ab[0] * h + ab[1]
        return h, h

    return lax.scan(step, jnp.zeros_like(b[0]), (a, b))[1]


def advantages(rewards: jax.Array, values: jax.Array, done: jax.Array) -> jax.Array:
    """Generalised advantage estimation, from the last step on."""

    def step(carry: Any, now: Any) -> Any:
        advantage, after = carry
        reward, value, done = now
        left = reward + 0.99 * after * (1 - done) - value
        advantage = left + 0.95 * 0.99 * (1 - done) * advantage
        return (advantage, value), advantage

    start = (jnp.zeros_like(values[0]), jnp.zeros_like(values[0]))
    return lax.scan(step, start, (rewards, values, done > 1), reverse=True)[1]


def retention(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
    """Linear attention with decay, a token at a time."""

    def step(state: Any, now: Any) -> Any:
        q, k, v = now
        state = 0.9 * state + k[:, :, None] * v[:, None]
        return state, jnp.einsum("bk,bkv->bv", q, state)

    start = jnp.zeros((*key.shape[1:], value.shape[2]))
    return lax.scan(step, start, (query, key, value))[1]


def kalman(measured: jax.Array) -> jax.Array:
    """What a filter estimates, whose gains depend on no measurement."""

    def step(carry: Any, now: Any) -> Any:
        estimate, variance = carry
        variance += 0.1
        gain = variance / (variance + 1)
        estimate += gain * (now - estimate)
        return (estimate, (1 - gain) * variance), estimate

    zeros = jnp.zeros_like(measured[0])
    return lax.scan(step, (zeros, zeros + 1), measured)[1]


def thomas(upper: jax.Array, right: jax.Array) -> jax.Array:
    """Tridiagonal systems, solved in place: rows are read that the loop wrote a trip before."""

    def forwards(i: Any, carry: Any) -> Any:
        c, d = carry
        under = 3.0 - c[i - 1]
        return c.at[i].set(c[i] / under), d.at[i].set((d[i] - d[i - 1]) / under)

    def backwards(k: Any, d: Any) -> Any:
        i = len(d) - 2 - k
        return d.at[i].add(-c[i] * d[i + 1])

    c, d = lax.fori_loop(1, len(right), forwards, (jnp.tanh(upper), right))
    return lax.fori_loop(0, len(d) - 1, backwards, d)


def envelope(x: jax.Array) -> jax.Array:
    """How loud a signal was of late."""

    def step(level: Any, now: Any) -> Any:
        level = jnp.maximum(jnp.abs(now), 0.99 * level)
        return level, level

    return lax.scan(step, jnp.zeros_like(x[0]), x)[1]


def waiting(work: jax.Array, gap: jax.Array) -> jax.Array:
    """How long each waits in a queue."""

    def step(wait: Any, now: Any) -> Any:
        wait = jnp.maximum(0, wait + now[0] - now[1])
        return wait, wait

    return lax.scan(step, jnp.zeros_like(work[0]), (work, gap))[1]


def forward(likelihood: jax.Array) -> jax.Array:
    """The forward pass of a hidden Markov model with 16 states."""
    moves = jnp.sin(jnp.arange(256.0)).reshape(16, 16)

    def step(state: Any, now: Any) -> Any:
        state = jax.nn.logsumexp(state[:, None] + moves, axis=0) + now
        return state, state

    first = likelihood[0]
    return lax.scan(step, first, likelihood[1:])[1].sum(0)


def viterbi(likelihood: jax.Array) -> jax.Array:
    """The likeliest states of a hidden Markov model, found from the end on."""
    moves = jnp.sin(jnp.arange(256.0)).reshape(16, 16)

    def step(state: Any, now: Any) -> Any:
        scores = state[:, None] + moves
        return scores.max(0) + now, scores.argmax(0)

    last, before = lax.scan(step, jnp.zeros_like(likelihood[0]), likelihood)
    return lax.scan(lambda k, row: (row[k], k), last.argmax(), before, reverse=True)[1]


def gated(inputs: jax.Array, weights: jax.Array) -> jax.Array:
    """A recurrent network of 16 gated units."""

    def step(state: Any, now: Any) -> Any:
        gate, new = jnp.split(jnp.concatenate([now, state]) @ weights, 2)
        state += jax.nn.sigmoid(gate) * (jnp.tanh(new) - state)
        return state, state

    return lax.scan(step, jnp.zeros_like(inputs[0]), inputs)[1]


def attended(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
    """One token's attention to a cache, 64 positions at a time."""

    def step(carry: Any, now: Any) -> Any:
        most, total, out = carry
        keys, values = now
        scores = jnp.einsum("bd,cbd->bc", query, keys)
        largest = jnp.maximum(most, scores.max(1))
        weights, less = jnp.exp(scores - largest[:, None]), jnp.exp(most - largest)
        out = out * less[:, None] + jnp.einsum("bc,cbd->bd", weights, values)
        return (largest, total * less + weights.sum(1), out), None

    batch, width = query.shape
    parts = [array.reshape(-1, 64, batch, width) for array in (key, value)]
    start = jnp.full(batch, -jnp.inf), jnp.zeros(batch), jnp.zeros((batch, width))
    (_, total, out), _ = lax.scan(step, start, tuple(parts))
    return out / total[:, None]


TOKENS = (array(4096, 2, 16), P("x"))

LOOPS: dict[str, Row] = {
    "recurrence_loop": row(
        5 * SLICE,
        "S log2 p, and S (log2 p - 1) of products",
        recurrence_loop,
        LONG,
        LONG,
        out=ROWS,
    ),
    "recurrence_loop_gradient": row(
        10 * SLICE,
        "two recurrences",
        jax.grad(lambda a, b: jnp.mean(recurrence_loop(jax.nn.sigmoid(a), b) ** 2), (0, 1)),
        LONG,
        LONG,
        out=(ROWS, ROWS),
    ),
    "advantages_loop": row(
        (2 * 3 + 3 * 2) * SLICE,
        "2 S log2 p, and 3 S (log2 p - 1) of products",
        advantages,
        LONG,
        LONG,
        LONG,
        out=ROWS,
    ),
    "kalman_loop": row(
        5 * SLICE,
        "S log2 p, and S (log2 p - 1) of products",
        kalman,
        LONG,
        out=ROWS,
    ),
    "thomas_loop": row(
        19 * SLICE,
        "2 S (p - 1) of rows forwards; backwards 2 S log2 p - S, as a recurrence",
        thomas,
        LONG,
        LONG,
        out=ROWS,
    ),
    "envelope_loop": row(3 * SLICE, "S log2 p of levels", envelope, LONG, out=ROWS),
    "waiting_loop": row(
        5 * SLICE,
        "S log2 p of bounds, and S (log2 p - 1) of sums",
        waiting,
        LONG,
        LONG,
        out=ROWS,
    ),
    "forward_loop": row(9 * SLICE, "S (p - 1) of states, and 2 S of sums", forward, LONG, out=P()),
    "viterbi_loop": row(
        8 * SLICE,
        "S (p - 1) of states, the last one, and a number for each shard",
        viterbi,
        LONG,
        out=P("x"),
    ),
    "gated_loop": row(
        7 * SLICE, "S (p - 1) of states", gated, LONG, (array(32, 32), P()), out=ROWS
    ),
    "gated_loop_gradient": row(
        14 * SLICE + 2 * 32 * 32 * 4,
        "2 S (p - 1) of states, and the sum of gradients",
        jax.grad(lambda x, w: jnp.mean(gated(x, w / 4) ** 2), (0, 1)),
        LONG,
        (array(32, 32), P()),
        out=(ROWS, P()),
    ),
    "attention_loop": row(
        (2 * 2 + 3 * (2 * 2 + 2 * 16)) * 4,
        "log2 p of maximum, sum and result",
        attended,
        (array(2, 16), P()),
        TOKENS,
        TOKENS,
        out=P(),
    ),
    "retention_loop": row(
        5 * 2 * 16 * 16 * 4,
        "S log2 p of states, and S (log2 p - 1) of products",
        retention,
        TOKENS,
        TOKENS,
        TOKENS,
        out=P("x"),
    ),
}
