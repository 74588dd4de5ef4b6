"""The rows of `benchmarks.long_tail` that are stencils, filters and grids."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from benchmarks.against_jax.workload import array
from benchmarks.long_tail_forms import (
    box_filter,
    gauss_seidel,
    heat,
    heat_scan,
    laplace_and_wall,
    laplace_by_convolution,
    laplace_by_edge_pad,
    laplace_by_pad,
    laplace_by_roll,
    laplace_inside,
    life,
    resize,
    shallow_water,
    spectrogram,
    total_variation,
    wavelet,
)
from benchmarks.long_tail_row import EDGES, LONG, PLANE, ROWS, SLICE, TILES, WHOLE, Row, X, row

GRIDS: dict[str, Row] = {
    **{
        f"heat_by_{name}": row(
            50 * 2 * EDGES, "50 steps of four edges", heat(step), PLANE, out=PLANE[1], mesh=TILES
        )
        for name, step in {
            "roll": laplace_by_roll,
            "pad": laplace_by_pad,
            "convolution": laplace_by_convolution,
            "update": laplace_inside,
        }.items()
    },
    "heat_by_update_gradient": row(
        50 * 2 * 2 * EDGES,
        "50 steps of four edges, there and back",
        jax.grad(lambda u: jnp.sum(heat_scan(laplace_inside)(u) ** 2)),
        PLANE,
        out=PLANE[1],
        mesh=TILES,
    ),
    **{
        f"heat_by_{name}": row(
            50 * 2 * EDGES, "50 steps of four edges", heat(step), PLANE, out=PLANE[1], mesh=TILES
        )
        for name, step in {"edge_pad": laplace_by_edge_pad, "wall": laplace_and_wall}.items()
    },
    "laplace_by_edge_pad_gradient": row(
        2 * 2 * EDGES,
        "four edges, there and back",
        jax.grad(lambda u: jnp.sum(laplace_by_edge_pad(u) ** 2)),
        PLANE,
        out=PLANE[1],
        mesh=TILES,
    ),
    **{
        f"life_by_{name}": row(
            50 * (2 * EDGES + 4 * 4),
            "50 turns of four edges and four corners",
            life(name == "pad"),
            PLANE,
            out=PLANE[1],
            mesh=TILES,
        )
        for name in ("roll", "pad")
    },
    "shallow_water": row(
        50 * 3 * 2 * EDGES,
        "50 steps of four edges of each of three fields",
        shallow_water,
        PLANE,
        PLANE,
        PLANE,
        out=PLANE[1],
        mesh=TILES,
    ),
    "gauss_seidel": row(
        10 * 4 * 128 * 4,
        "10 sweeps, half a row for each of four colours",
        gauss_seidel,
        (PLANE[0], ROWS),
        out=ROWS,
    ),
    "interleave": row(
        0,
        "nothing",
        lambda a, b: jnp.zeros((8192, 16)).at[::2].set(a + b).at[1::2].set(a - b),
        LONG,
        LONG,
        out=ROWS,
    ),
    "total_variation_gradient": row(
        2 * 128 * 4.0 + 2 * 128 * 4.0,
        "four edges, there and back",
        jax.grad(total_variation),
        PLANE,
        out=PLANE[1],
        mesh=TILES,
    ),
    **{
        f"box_filter_{mode}": row(
            (3 + 8) * 256 * 4,
            "S log2 p of sums, and 8 rows",
            box_filter(mode),
            (array(256, 256), ROWS),
            out=ROWS,
        )
        for mode in ("constant", "edge")
    },
    "box_filter_gradient": row(
        2 * (3 + 8) * 256 * 4,
        "S log2 p of sums, and 8 rows, there and back",
        jax.grad(lambda u: jnp.sum(box_filter("constant")(u) ** 2)),
        (array(256, 256), ROWS),
        out=ROWS,
    ),
    **{
        f"resize_{name}": row(
            2 * 256 * 4, "two rows", resize(by), (array(256, 256), ROWS), out=ROWS
        )
        for name, by in {"up": 2.0, "down": 0.5}.items()
    },
    "resize_lanczos": row(
        11 * 256 * 4,
        "five rows, and six",
        lambda u: jax.image.resize(u, (128, 256), "lanczos3"),
        (array(256, 256), ROWS),
        out=ROWS,
    ),
    "resize_of_patches": row(
        2 * 128 * 4,
        "two rows of a half",
        lambda u: resize(2.0)(u.reshape(128, 2, 128, 2).max((1, 3))),
        (array(256, 256), ROWS),
        out=ROWS,
    ),
    "resize_up_gradient": row(
        2 * 2 * 256 * 4,
        "two rows there and back",
        jax.grad(lambda u: jnp.sum(resize(2.0)(u) ** 2)),
        (array(256, 256), ROWS),
        out=ROWS,
    ),
    "gradient_of_a_grid": row(2 * SLICE, "2 S", lambda x: jnp.gradient(x, axis=0), LONG, out=ROWS),
    "wavelet": row(2 * SLICE, "2 S", wavelet, LONG, out=ROWS),
    "spectrogram": row(128 * 4, "half a frame", spectrogram, (array(65536), X)),
    "frames_of_320": row(
        7 * 160 * 4,
        "of 62.5 frames a shard, 63: the seventh shard lacks 7 halves",
        lambda x, w: jnp.abs(x.reshape(-1, 320) @ w),
        (array(160000), X),
        (array(320, 40), WHOLE),
    ),
    "pool_of_7_rows": row(
        3 * 4 * 16 * 8 * 4 + 4 * 32 * 8 * 4,
        "of 7 rows a shard: one of them, and 3 of the results",
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        (array(4, 56, 32, 8), P(None, "x")),
    ),
    "pad_by_half": row(
        768 * SLICE,
        "what the busiest shard has to get",
        lambda x: jnp.pad(x, ((0, 2048), (0, 0))),
        LONG,
        out=ROWS,
    ),
}
