"""The forms of `benchmarks.long_tail` that sort, or find what would stand somewhere in an order."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

from benchmarks.against_jax.workload import array
from benchmarks.long_tail_forms import beam_search
from benchmarks.long_tail_row import COLUMNS, LONG, VECTOR, WHOLE, R, Row, X, row

ORDERS: dict[str, Row] = {
    "sort": row(2 * R * 2048 + 2048, "2 r L + L, columnsort", jnp.sort, VECTOR, out=X),
    "argsort": row(
        2 * R * 512 * (4 + 2) + 256 * (4 + 2) + 256 * 2,
        "the same on keys and places of 16 bits; half of the places come back",
        jnp.argsort,
        VECTOR,
        out=X,
    ),
    "read_in_order": row(
        2 * R * 512 * (4 + 2 + 4) + 256 * (4 + 2 + 4) + 256 * 4,
        "the same with the numbers that are read, half of which come back",
        lambda x, y: y[jnp.argsort(x)],
        VECTOR,
        VECTOR,
        out=X,
    ),
    "unique": row(
        2 * R * 2048 + 2048 + 2 * 2 * R * 64 * 4,
        "columnsort; all_reduces of 64 places and of the numbers there",
        lambda x: jnp.unique(x, size=64, fill_value=0),
        (array(4096, dtype=np.int32), X),
        out=WHOLE,
    ),
    "top_k": row(
        128 * 8 * 3.0,
        "k (value and place) log2 p",
        lambda x: lax.top_k(x, 128),
        (array(131072), X),
        out=[WHOLE, WHOLE],
    ),
    "beam_search": row(
        2 * 2 * R * 32 * 4 + 3 * 32 * 8.0,
        "all_reduces of maximum and sum, and k (value and place) log2 p",
        beam_search,
        (array(8, 4, 32768), P(None, None, "x")),
        (array(8, 4), WHOLE),
        out=[WHOLE, WHOLE],
    ),
    "argmax": row(
        2 * 2 * R * 64 * 4,
        "2 all_reduces, of values and of places",
        lambda x: jnp.argmax(x, 1),
        (array(64, 32768), COLUMNS),
        out=WHOLE,
    ),
    "categorical": row(
        2 * 2 * R * 64 * 4,
        "as argmax",
        lambda x: jax.random.categorical(jax.random.key(0), x),
        (array(64, 32768), COLUMNS),
        out=WHOLE,
    ),
    "median": row(32 * 2 * R * 4, "32 scalar all_reduces", jnp.median, VECTOR, out=WHOLE),
    "median_gradient": row(
        32 * 2 * R * 4, "32 scalar all_reduces", jax.grad(jnp.median), VECTOR, out=X
    ),
    "nanmedian_of_columns": row(
        32 * 2 * R * 16 * 4,
        "32 all_reduces of two counts of 16 bits for each of 16 columns",
        lambda x: jnp.nanmedian(x, 0),
        LONG,
        out=WHOLE,
    ),
    "searchsorted": row(
        2 * R * 256,
        "one all_reduce of the counts",
        lambda t, q: jnp.searchsorted(t, q),
        VECTOR,
        (array(64), WHOLE),
        out=WHOLE,
    ),
}
