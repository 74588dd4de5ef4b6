"""Bytes of operations along a split dimension, beside `jax.jit` and the best algorithm known.

    python -m benchmarks.long_tail [--calls N] [--out FILE.json] [NAMES...]

Every row is one form that users write, on eight virtual CPU devices; `least` is what the best known
distributed algorithm sends per device, by the formula beside it: p = 8 devices, L = bytes of a
shard, S = bytes of one slice across the split dimension. The exit status is 1 if a result differs
from that of one device.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy import signal
from jax.sharding import PartitionSpec as P
from rich.progress import track
from rich.table import Table

import benchmarks.against_jax.__main__  # noqa: F401 - sets up eight devices
from benchmarks.against_jax.command import TOLERANCE, exit_status, options, wide_console
from benchmarks.against_jax.measure import measure
from benchmarks.against_jax.workload import array
from benchmarks.long_tail_forms import (
    affine,
    alternating,
    append,
    complex_product,
    conv,
    conv_around,
    conv_transposed,
    conv_transposed_whole,
    cross_entropy,
    decode,
    gaussian,
    log_sum,
    loss_of_rows,
    low_pass,
    messages,
    moments,
    online_softmax,
    paged_decode,
    poisson,
    pool,
    recurrence,
    relative_shift,
    unet,
)
from benchmarks.long_tail_grids import GRIDS
from benchmarks.long_tail_loops import LOOPS
from benchmarks.long_tail_orders import ORDERS
from benchmarks.long_tail_places import LOOKUPS
from benchmarks.long_tail_row import (
    CACHE,
    CHUNK,
    COLUMNS,
    EDGE,
    IMAGES,
    LOCAL,
    LONG,
    PAGES,
    PLACES,
    ROWS,
    SCALAR,
    SLICE,
    TILES,
    TOKEN,
    VECTOR,
    WHOLE,
    R,
    Row,
    X,
    row,
)

ROWS_OF_TABLE: dict[str, Row] = {
    "cumsum": row(3 * SLICE, "S log2 p", lambda x: jnp.cumsum(x, 0), LONG, out=ROWS),
    "cumsum_reverse": row(
        3 * SLICE, "S log2 p", lambda x: lax.cumsum(x, 0, reverse=True), LONG, out=ROWS
    ),
    "cumprod": row(3 * SLICE, "S log2 p", lambda x: jnp.cumprod(x, 0), LONG, out=ROWS),
    "cummax": row(3 * SLICE, "S log2 p", lambda x: lax.cummax(x, 0), LONG, out=ROWS),
    "cumlogsumexp": row(3 * SLICE, "S log2 p", lambda x: lax.cumlogsumexp(x, 0), LONG, out=ROWS),
    "cumsum_gradient": row(
        3 * SLICE,
        "S log2 p",
        jax.grad(lambda x: jnp.sum(jnp.cumsum(x, 0) * jnp.arange(4096.0)[:, None]) / 4096),
        LONG,
        out=ROWS,
    ),
    "associative_scan_add": row(
        3 * SLICE, "S log2 p", lambda x: lax.associative_scan(jnp.add, x), LONG, out=ROWS
    ),
    "linear_recurrence": row(
        5 * SLICE, "S log2 p, and S (log2 p - 1) of products", recurrence, LONG, LONG, out=ROWS
    ),
    "linear_recurrence_gradient": row(
        11 * SLICE,
        "two recurrences, and a shift by one",
        jax.grad(lambda a, b: jnp.mean(recurrence(jax.nn.sigmoid(a), b) ** 2), (0, 1)),
        LONG,
        LONG,
        out=(ROWS, ROWS),
    ),
    "scan_of_matrices": row(
        3 * 3 * 4 + 2 * 9 * 4,
        "S log2 p, and S (log2 p - 1) of products",
        lambda a, b: lax.associative_scan(affine, (a / 4, b))[1],
        (array(4096, 3, 3), P("x")),
        (array(4096, 3), ROWS),
        out=ROWS,
    ),
    "scan_of_gaussians": row(
        3 * (3 + 9) * 4 + 2 * 9 * 4,
        "S log2 p, and S (log2 p - 1) of products",
        lambda a, b, c: lax.associative_scan(gaussian, (a / 4, b, c))[1:],
        (array(4096, 3, 3), P("x")),
        (array(4096, 3), ROWS),
        (array(4096, 3, 3), P("x")),
        out=(ROWS, P("x")),
    ),
    "online_softmax": row(
        3 * (1 + 16) * 4,
        "S log2 p, of maxima and of values",
        lambda m, v: lax.associative_scan(online_softmax, (m, jnp.ones_like(m), v))[2],
        VECTOR,
        LONG,
        out=ROWS,
    ),
    "reduce_complex_product": row(
        2 * 2 * R * SLICE, "2 r S of two numbers", complex_product, LONG, LONG, out=WHOLE
    ),
    "reduce_log_sum": row(2 * 2 * R * SLICE, "2 r S of two numbers", log_sum, LONG, out=WHOLE),
    "reduce_welford": row(3 * 2 * R * SLICE, "2 r S of three numbers", moments, LONG, out=WHOLE),
    "diff": row(SLICE, "S", lambda x: jnp.diff(x, axis=0, prepend=0), LONG, out=ROWS),
    "shift": row(
        SLICE, "S", lambda x: jnp.concatenate([jnp.zeros_like(x[:1]), x[:-1]]), LONG, out=ROWS
    ),
    "roll": row(5 * SLICE, "5 S", lambda x: jnp.roll(x, 5, 0), LONG, out=ROWS),
    "reverse": row(LOCAL, "L", lambda x: x[::-1], LONG, out=ROWS),
    "exchanged_pairs": row(0, "nothing", lambda x: x[jnp.arange(len(x)) ^ 1], LONG, out=ROWS),
    "exchanged_shards": row(
        LOCAL, "L", lambda x: x[jnp.arange(len(x)) ^ len(x) // 4], LONG, out=ROWS
    ),
    "every_second": row(0, "nothing", lambda x: x[::2], LONG, out=ROWS),
    "causal_conv1d": row(
        3 * SLICE,
        "3 S",
        lambda x, k: lax.conv_general_dilated(
            x[None],
            k,
            (1,),
            [(3, 0)],
            feature_group_count=16,
            dimension_numbers=("NWC", "WIO", "NWC"),
        )[0],
        LONG,
        (array(4, 1, 16), WHOLE),
        out=ROWS,
    ),
    "concatenate": row(
        2 * LOCAL, "2 L", lambda a, b: jnp.concatenate([a, b]), LONG, LONG, out=ROWS
    ),
    "concatenate_unlike": row(
        LOCAL,
        "what the busiest shard has to send or to get, of 3072 and 1024 rows",
        lambda a, b: jnp.concatenate([a, b]),
        (array(3072, 16), ROWS),
        (array(1024, 16), ROWS),
        out=ROWS,
    ),
    "pooling": row(EDGE, "one row", pool, IMAGES, out=P(None, "x")),
    "pooling_gradient": row(
        2 * EDGE, "two rows", jax.grad(lambda x: jnp.sum(pool(x) ** 2)), IMAGES, out=P(None, "x")
    ),
    "convolution": row(
        2 * EDGE, "two rows", conv, IMAGES, (array(3, 3, 8, 8), WHOLE), out=P(None, "x")
    ),
    **{
        f"convolution_{mode}": row(
            2 * EDGE,
            "two rows",
            conv_around(mode),
            IMAGES,
            (array(3, 3, 8, 8), WHOLE),
            out=P(None, "x"),
        )
        for mode in ("wrap", "reflect")
    },
    "transposed_convolution_gradient": row(
        2 * EDGE + 2 * R * 4 * 9 * 64,
        "a row there, one back; all_reduce of the gradient of the kernel",
        jax.grad(lambda x, k: jnp.sum(conv_transposed(x, k) ** 2), argnums=(0, 1)),
        IMAGES,
        (array(3, 3, 8, 8), WHOLE),
        out=(P(None, "x"), WHOLE),
    ),
    "transposed_convolution_whole": row(
        EDGE + 2 * R * 4,
        "a row; all_reduce of a scalar",
        conv_transposed_whole,
        IMAGES,
        (array(4, 4, 8, 8), WHOLE),
        out=WHOLE,
    ),
    "correlation": row(
        4 * 64 * 4.0,
        "2 rows of both neighbours",
        lambda x: signal.correlate2d(x, jnp.ones((5, 5)), mode="same"),
        (array(512, 64), ROWS),
        out=ROWS,
    ),
    "convolution_wrap_gradient": row(
        4 * EDGE + 2 * R * 4 * 9 * 64,
        "two rows there and two back; all_reduce of the gradient of the kernel",
        jax.grad(lambda x, k: jnp.sum(conv_around("wrap")(x, k) ** 2), argnums=(0, 1)),
        IMAGES,
        (array(3, 3, 8, 8), WHOLE),
        out=(P(None, "x"), WHOLE),
    ),
    "unet_gradient": row(
        6 * EDGE + 2 * R * 2 * 4 * 9 * 64,
        "rows of each convolution and pool, there and back; all_reduce of the gradients",
        jax.grad(unet, argnums=(1, 2)),
        IMAGES,
        (array(3, 3, 8, 8), WHOLE),
        (array(3, 3, 8, 8), WHOLE),
        out=(WHOLE, WHOLE),
    ),
    **GRIDS,
    **LOOPS,
    **ORDERS,
    **LOOKUPS,
    "histogram": row(
        2 * R * 64 * 4 + 2 * 2 * R * 4,
        "all_reduces of the bins and the range",
        lambda x: jnp.histogram(x, 64)[0],
        VECTOR,
        out=WHOLE,
    ),
    "bincount": row(
        2 * R * 32 * 4,
        "one all_reduce",
        lambda x: jnp.bincount(x, length=32),
        (array(4096, dtype=np.int32), X),
        out=WHOLE,
    ),
    "fft": row(
        3 * R * 4096, "3 r L, four-step", jnp.fft.fft, (array(4096, dtype=np.complex64), X), out=X
    ),
    "fft_odd_shards": row(
        3 * R * 4104, "3 r L, four-step", jnp.fft.fft, (array(4104, dtype=np.complex64), X), out=X
    ),
    "fft_real": row(
        3 * R * 8192 * 4, "3 r L, four-step", lambda x: jnp.abs(jnp.fft.rfft(x)), (array(65536), X)
    ),
    "filter_real": row(
        6 * R * 8192 * 4, "6 r L, four-step there and back", low_pass, (array(65536), X), out=X
    ),
    "fft2": row(
        2 * R * 512 * 512,
        "2 r L",
        jnp.fft.fft2,
        (array(512, 512, dtype=np.complex64), ROWS),
        out=ROWS,
    ),
    "fft3_pencils": row(
        16384 * (0.75 + 2 * 0.5),
        "L (r1 + 2 r2)",
        jnp.fft.fftn,
        (array(32, 32, 16, dtype=np.complex64), P("x", "y")),
        out=P("x", "y"),
        mesh=TILES,
    ),
    "poisson": row(2 * R * 128 * 128, "2 r L", poisson, (array(128, 128), ROWS), out=ROWS),
    "qr": row(
        2 * 2 * R * 32 * 32 * 4,
        "2 all_reduces of n^2",
        lambda x: jnp.linalg.qr(x)[0],
        (array(4096, 32), ROWS),
        out=ROWS,
    ),
    "qr_of_a_batch": row(
        3 * (R * 8 * 16 * 33 * 4 + 2 * R * 32 * 4),
        "triangles of all shards and signs, TSQR of 3 matrices",
        lambda x: jnp.linalg.qr(x)[0],
        (array(3, 1024, 32), P(None, "x")),
        out=P(None, "x"),
    ),
    "least_squares": row(
        2 * 2 * R * 16 * 16 * 4 + 2 * R * 16 * 4,
        "2 all_reduces of n^2, and one of n",
        lambda a, b: jnp.linalg.lstsq(a, b)[0],
        LONG,
        VECTOR,
        out=WHOLE,
    ),
    "triangular_solve": row(
        0,
        "nothing",
        lambda a, b: lax.linalg.triangular_solve(
            a + 20 * jnp.eye(64), b, left_side=True, lower=True
        ),
        (array(64, 64), WHOLE),
        (array(64, 512), COLUMNS),
        out=COLUMNS,
    ),
    "tridiagonal_solves": row(
        2 * R * 256 * 256 * 4 / 8,
        "2 r L, along each dimension in turn",
        alternating,
        (array(256, 256), ROWS),
        out=ROWS,
    ),
    "gather": row(
        R * 4096 * 4 + R * 4096 * 64 * 4,
        "all_gather of ids, reduce_scatter of rows",
        lambda t, i: t[i],
        (array(65536, 64), ROWS),
        (array(4096, dtype=np.int32), X),
        out=ROWS,
    ),
    "segment_sum": row(
        R * 1024 * 64 * 4,
        "reduce_scatter",
        lambda x, i: jax.ops.segment_sum(x, i, 1024),
        (array(8192, 64), ROWS),
        (array(8192, dtype=np.int32), X),
        out=ROWS,
    ),
    "graph_network": row(
        2 * R * 1024 * 64 * 4 / 8 + 2 * R * 8192 * 4,
        "2 r L, features split instead, and all_gathers of ids",
        messages,
        (array(1024, 64), ROWS),
        (array(8192, dtype=np.int32), X),
        (array(8192, dtype=np.int32), X),
        out=ROWS,
    ),
    "position": row(
        2 * R * 8 * 16 * 4,
        "one all_reduce of a slice",
        lambda x, i: lax.dynamic_slice_in_dim(x, i, 8, 0),
        LONG,
        SCALAR,
        out=WHOLE,
    ),
    "last_position": row(
        R * SLICE * 2, "one all_reduce of a slice", lambda x: x[-1], LONG, out=WHOLE
    ),
    "loss_of_rows": row(2 * R * 4, "one all_reduce of a scalar", loss_of_rows, LONG, out=WHOLE),
    "loss_of_rows_gradient": row(0, "nothing", jax.grad(loss_of_rows), LONG, out=ROWS),
    "update_at": row(
        0,
        "nothing",
        lambda x, u, i: lax.dynamic_update_slice_in_dim(x, u, i, 0),
        LONG,
        (array(1, 16), WHOLE),
        SCALAR,
        out=ROWS,
    ),
    "append_rows": row(
        0,
        "nothing",
        append,
        LONG,
        (array(8, 16), WHOLE),
        SCALAR,
        out=ROWS,
    ),
    "append_rows_each": row(0, "nothing", jax.vmap(append), CACHE, CHUNK, PLACES, out=CACHE[1]),
    "read_rows_each": row(
        2 * R * 2 * 8 * 4 * 16 * 4,
        "one all_reduce of the rows",
        jax.vmap(lambda cache, at: lax.dynamic_slice_in_dim(cache, at, 8, 0)),
        CACHE,
        PLACES,
        out=WHOLE,
    ),
    "relative_shift": row(
        2 * R * 512 * 4,
        "a row of the next shard, but for what the first one moves by",
        relative_shift,
        (array(2, 512, 512), P(None, "x")),
        out=P(None, "x"),
    ),
    "decode": row(
        2 * R * 2 * 4 * (16 + 1 + 1) * 4,
        "all_reduces of maximum, sum and result",
        decode,
        (array(2, 4, 16), WHOLE),
        CACHE,
        CACHE,
        TOKEN,
        TOKEN,
        SCALAR,
        out=(WHOLE, CACHE[1], CACHE[1]),
    ),
    **{
        f"paged_decode_{name}": row(
            2 * R * 4 * 2 * (16 + 1 + 1) * 4,
            "all_reduces of maximum, sum and result",
            paged_decode,
            (array(4, 2, 16), WHOLE),
            (PAGES, spec),
            (PAGES, spec),
            (array(4, 4, dtype=np.int32), WHOLE),
            (array(4, dtype=np.int32), WHOLE),
            out=WHOLE,
        )
        for name, spec in {"pages": X, "positions": COLUMNS}.items()
    },
    "cross_entropy": row(
        3 * 2 * R * 256 * 4 + 2 * R * 256 * 64 * 4,
        "all_reduces of maximum, sum, picked, and of one gradient",
        jax.value_and_grad(cross_entropy, argnums=(0, 1)),
        (array(256, 64), WHOLE),
        (array(64, 4096), COLUMNS),
        (array(256, dtype=np.int32), WHOLE),
        out=(WHOLE, (WHOLE, COLUMNS)),
    ),
}


def ratio(found: float, least: float) -> float:
    """How many times the least; one byte stands for none."""
    return max(found, 1.0) / max(least, 1.0)


def mean(values: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line names; 1 if a result differs from one device."""
    args = options(arguments, "benchmarks.long_tail", __doc__, list(ROWS_OF_TABLE), 5, None)
    console = wide_console()
    measured = {
        name: measure(ROWS_OF_TABLE[name].workload, args.calls)
        for name in track(args.names, "compiling and running", console=console)
    }
    table = Table("form", "least bytes", "dtensor", "jax.jit", "step / jax", "least by")
    for name, found in measured.items():
        given = ROWS_OF_TABLE[name]
        cells = [
            f"{found[c]['wire_bytes']:,.0f} ({ratio(found[c]['wire_bytes'], given.least):.3g})"
            for c in ("dtensor", "jax")
        ]
        steps = found["dtensor"]["step_seconds"] / found["jax"]["step_seconds"]
        table.add_row(name, f"{given.least:,.0f}", *cells, f"{steps:.2f}", given.why)
    console.print(table)
    for compiler in ("dtensor", "jax"):
        ratios = [
            ratio(f[compiler]["wire_bytes"], ROWS_OF_TABLE[n].least) for n, f in measured.items()
        ]
        over = sum(value > 1.05 for value in ratios)
        console.print(
            f"{compiler}: {mean(ratios):.3g} times the least, {over} of {len(ratios)} above 1.05"
        )
    if args.out:
        args.out.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    wrong = [n for n, f in measured.items() if not f["dtensor"]["largest_difference"] <= TOLERANCE]
    return exit_status(console, wrong)


if __name__ == "__main__":
    sys.exit(main())
