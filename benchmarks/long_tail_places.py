"""The forms of `benchmarks.long_tail` that look up places, or what is around them."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.against_jax.workload import array
from benchmarks.long_tail_row import ROWS, VECTOR, WHOLE, R, Row, X, row

SIGNAL = (array(65536), X)
MARKS = (array(65536, dtype=np.bool_), X)


def filled(x: Any, known: Any) -> Any:
    """The last number that is known in the place of each that is not."""
    return x[lax.cummax(jnp.where(known, jnp.arange(x.shape[0]), 0))]


def rolling(x: Any) -> Any:
    """The largest of 32 numbers up to each, of fewer at the start."""
    return x[jnp.maximum(jnp.arange(x.shape[0])[:, None] - jnp.arange(32), 0)].max(1)


def ghosts(u: Any) -> Any:
    """Ten steps of a stencil, whose edges are those of what is inside."""

    def step(_: Any, u: Any) -> Any:
        inner = u[1:-1] + 0.2 * (u[2:] + u[:-2] - 2 * u[1:-1])
        return jnp.concatenate([inner[:1], inner, inner[-1:]])

    return lax.fori_loop(0, 10, step, u)


def overlapped(frames: Any) -> Any:
    """The sum of frames of 256, 64 apart."""
    count, length = frames.shape
    places = jnp.arange(count)[:, None] * 64 + jnp.arange(length)
    total = jnp.zeros((count - 1) * 64 + length)
    return total.at[places].add(frames)[: count * 64]


LOOKUPS: dict[str, Row] = {
    "fill_forward": row(
        3 * 8.0, "a place and a number, log2 p times", filled, SIGNAL, MARKS, out=X
    ),
    "last_true": row(
        2 * R * 4,
        "an all_reduce of a place",
        lambda m: m.shape[0] - 1 - jnp.argmax(m[::-1]),
        MARKS,
        out=WHOLE,
    ),
    "rolling_max": row(31 * 4.0, "31 numbers of a neighbour", rolling, SIGNAL, out=X),
    "around": row(
        20 * 4.0,
        "10 numbers of each neighbour",
        lambda x: x[(jnp.arange(65536)[:, None] + jnp.array([-10, 0, 10])) % 65536].sum(1),
        SIGNAL,
        out=X,
    ),
    "largest_of_sort": row(
        10 * 4 * 3.0, "10 numbers, log2 p times", lambda x: jnp.sort(x)[-10:], SIGNAL, out=WHOLE
    ),
    "partition": row(
        17 * 4 * 3.0,
        "17 numbers, log2 p times",
        lambda x: jnp.partition(x, 16)[:17],
        VECTOR,
        out=WHOLE,
    ),
    "ghost_rows": row(
        10 * 2 * 64 * 4.0, "a row each way in each step", ghosts, (array(512, 64), ROWS), out=ROWS
    ),
    "causal_filter": row(
        100 * 4.0,
        "100 numbers of the neighbour before",
        lambda x, h: jnp.convolve(x, h)[: x.shape[0]],
        SIGNAL,
        (array(101), WHOLE),
        out=X,
    ),
    "overlap_add": row(
        3 * 64 * 4.0, "3 hops of the neighbour before", overlapped, (array(1024, 256), ROWS), out=X
    ),
}
