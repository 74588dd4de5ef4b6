"""The longer forms of `benchmarks.long_tail`, as users write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def recurrence(a: jax.Array, b: jax.Array) -> jax.Array:
    """h[t] = a[t] h[t-1] + b[t]."""

    def join(left: Any, right: Any) -> Any:
        return left[0] * right[0], left[1] * right[0] + right[1]

    return lax.associative_scan(join, (a, b))[1]


def affine(left: Any, right: Any) -> Any:
    """Maps of vectors, x -> A x + b, one after the other."""
    return right[0] @ left[0], jnp.einsum("tij,tj->ti", right[0], left[1]) + right[1]


def gaussian(left: Any, right: Any) -> Any:
    """Means and covariances of linear dynamics, one after the other."""
    moved = (right[0] @ left[1][..., None])[..., 0]
    spread = right[0] @ left[2] @ jnp.swapaxes(right[0], -1, -2)
    return right[0] @ left[0], moved + right[1], spread + right[2]


def online_softmax(left: Any, right: Any) -> Any:
    """Maxima, sums of exponentials, and sums of values weighted by them."""
    most = jnp.maximum(left[0], right[0])
    one, other = (jnp.exp(side[0] - most) for side in (left, right))
    values = left[2] * one[:, None] + right[2] * other[:, None]
    return most, left[1] * one + right[1] * other, values


def heat(step: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
    """Fifty explicit steps of the heat equation."""
    return lambda u: lax.fori_loop(0, 50, lambda _, v: v + 0.1 * step(v), u)


def heat_scan(step: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
    """The same, as what a gradient is taken of."""
    return lambda u: lax.scan(lambda v, _: (v + 0.1 * step(v), None), u, None, 50)[0]


def life(by_pad: bool) -> Callable[[jax.Array], jax.Array]:
    """Fifty turns of the game, on a torus or among dead cells."""
    places = [(i, j) for i in range(3) for j in range(3) if (i, j) != (1, 1)]

    def turn(_: int, u: jax.Array) -> jax.Array:
        if by_pad:
            p, (rows, columns) = jnp.pad(u, 1), u.shape
            around = sum(p[i : i + rows, j : j + columns] for i, j in places)
        else:
            around = sum(jnp.roll(u, (i - 1, j - 1), (0, 1)) for i, j in places)
        return ((around == 3) | ((around == 2) & (u > 0))).astype(u.dtype)

    return lambda u: lax.fori_loop(0, 50, turn, (u > 0).astype(u.dtype))


def shallow_water(h: jax.Array, u: jax.Array, v: jax.Array) -> tuple[jax.Array, ...]:
    """Fifty explicit steps of a height and two velocities, on a torus."""

    def slope(a: jax.Array, axis: int) -> jax.Array:
        return (jnp.roll(a, -1, axis) - jnp.roll(a, 1, axis)) / 2

    def step(_: int, state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        h, u, v = state
        return (
            h - 0.01 * (slope(h * u, 0) + slope(h * v, 1)),
            u - 0.01 * (u * slope(u, 0) + v * slope(u, 1) + slope(h, 0)),
            v - 0.01 * (u * slope(v, 0) + v * slope(v, 1) + slope(h, 1)),
        )

    return lax.fori_loop(0, 50, step, (h, u, v))


def laplace_by_roll(u: jax.Array) -> jax.Array:
    return sum(jnp.roll(u, s, axis) for s in (1, -1) for axis in (0, 1)) - 4 * u


def laplace_by_pad(u: jax.Array) -> jax.Array:
    v = jnp.pad(u, 1)
    return v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:] - 4 * u


def laplace_by_edge_pad(u: jax.Array) -> jax.Array:
    v = jnp.pad(u, 1, mode="edge")
    return v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:] - 4 * u


def laplace_and_wall(u: jax.Array) -> jax.Array:
    """Nothing flows through the wall: its values are those beside it."""
    v = laplace_by_roll(u)
    return v.at[0].set(v[1]).at[-1].set(v[-2]).at[:, 0].set(v[:, 1]).at[:, -1].set(v[:, -2])


def laplace_by_convolution(u: jax.Array) -> jax.Array:
    kernel = jnp.array([[0.0, 1, 0], [1, -4, 1], [0, 1, 0]], u.dtype)[None, None]
    return lax.conv(u[None, None], kernel, (1, 1), "SAME")[0, 0]


def laplace_inside(u: jax.Array) -> jax.Array:
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    return jnp.zeros_like(u).at[1:-1, 1:-1].set(around - 4 * u[1:-1, 1:-1])


def gauss_seidel(u: jax.Array) -> jax.Array:
    """Ten sweeps of four colours, each of every second row and column inside."""

    def coloured(u: jax.Array, row: int, column: int) -> jax.Array:
        inside = slice(row, -1, 2), slice(column, -1, 2)
        count = u[inside].shape
        around = [
            u[row + i : -1 + i or None : 2, column + j : -1 + j or None : 2]
            for i, j in ((1, 0), (-1, 0), (0, 1), (0, -1))
        ]
        return u.at[inside].set(sum(a[: count[0], : count[1]] for a in around) / 4)

    def sweep(_: int, u: jax.Array) -> jax.Array:
        for row, column in ((1, 1), (2, 2), (1, 2), (2, 1)):
            u = coloured(u, row, column)
        return u

    return lax.fori_loop(0, 10, sweep, u)


def conv(x: jax.Array, kernel: jax.Array) -> jax.Array:
    return lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def conv_transposed(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """Twice as many rows and columns."""
    numbers = ("NHWC", "HWIO", "NHWC")
    return lax.conv_transpose(x, kernel, (2, 2), "SAME", dimension_numbers=numbers)


def conv_transposed_whole(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """The mean square of all that a transposed convolution gives, and of two rows more."""
    numbers = ("NHWC", "HWIO", "NHWC")
    return jnp.mean(lax.conv_transpose(x, kernel, (2, 2), "VALID", dimension_numbers=numbers) ** 2)


def conv_around(mode: str) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """A convolution that meets the image's own elements beyond its edges, as `jnp.pad` says."""

    def apply(x: jax.Array, kernel: jax.Array) -> jax.Array:
        padded = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), mode=mode)
        return lax.conv_general_dilated(
            padded, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    return apply


def pool(x: jax.Array) -> jax.Array:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


def unet(x: jax.Array, down: jax.Array, up: jax.Array) -> jax.Array:
    """Two levels, with a skip connection; the loss."""
    high = jnp.tanh(conv(x, down))
    low = jnp.tanh(conv(pool(high), up))
    return jnp.mean((high + jax.image.resize(low, high.shape, "nearest")) ** 2)


def relative_shift(scores: jax.Array) -> jax.Array:
    """Transformer-XL: the scores of query i are moved by n - 1 - i places."""
    many, n, keys = scores.shape
    padded = jnp.pad(scores, ((0, 0), (0, 0), (1, 0)))
    return padded.reshape(many, keys + 1, n)[:, 1:].reshape(scores.shape)


def decode(
    q: jax.Array, keys: jax.Array, values: jax.Array, k: jax.Array, v: jax.Array, at: jax.Array
) -> Any:
    """One token: the caches are updated at a position, then attended to."""
    keys = lax.dynamic_update_slice_in_dim(keys, k, at, 1)
    values = lax.dynamic_update_slice_in_dim(values, v, at, 1)
    scores = jnp.einsum("bhd,bshd->bhs", q, keys) / 8
    scores = jnp.where(jnp.arange(keys.shape[1]) <= at, scores, -1e30)
    return jnp.einsum("bhs,bshd->bhd", jax.nn.softmax(scores), values), keys, values


def paged_decode(
    q: jax.Array, keys: jax.Array, values: jax.Array, table: jax.Array, lengths: jax.Array
) -> jax.Array:
    """One token, attending to caches in pages that a table says for each sequence."""
    batch, count = table.shape
    keys, values = (
        pages[table].reshape(batch, count * pages.shape[1], *pages.shape[2:])
        for pages in (keys, values)
    )
    scores = jnp.einsum("bhd,bshd->bhs", q, keys) / 4
    is_read = jnp.arange(keys.shape[1]) < lengths[:, None, None]
    weights = jax.nn.softmax(jnp.where(is_read, scores, -1e30))
    return jnp.einsum("bhs,bshd->bhd", weights, values)


def beam_search(logits: jax.Array, scores: jax.Array) -> list[jax.Array]:
    """The best of all words after each of the beams."""
    after = scores[..., None] + jax.nn.log_softmax(logits)
    return lax.top_k(after.reshape(len(after), -1), scores.shape[1])


def total_variation(u: jax.Array) -> jax.Array:
    """Of an image, as one denoises it."""
    down, right = jnp.diff(u, axis=0)[:, :-1], jnp.diff(u, axis=1)[:-1]
    return jnp.sum(jnp.sqrt(down**2 + right**2 + 1e-3))


def box_filter(mode: str) -> Callable[[jax.Array], jax.Array]:
    """Means of 8 x 8 pixels, from sums from the start along both dimensions."""

    def apply(u: jax.Array) -> jax.Array:
        around = jnp.pad(u, ((4, 3), (4, 3)), mode=mode)
        s = jnp.pad(jnp.cumsum(jnp.cumsum(around, 0), 1), ((1, 0), (1, 0)))
        return (s[8:, 8:] - s[:-8, 8:] - s[8:, :-8] + s[:-8, :-8]) / 64

    return apply


def resize(by: float) -> Callable[[jax.Array], jax.Array]:
    """An image with so many times the rows and columns, between which are lines."""
    return lambda u: jax.image.resize(u, [int(by * n) for n in u.shape], "bilinear")


def wavelet(x: jax.Array) -> jax.Array:
    """Four taps, over every second place of what goes on at the other end."""
    around = jnp.concatenate([x, x[:2]])
    taps = [0.483, 0.837, 0.224, -0.129]
    return sum(tap * around[k : k + len(x) : 2] for k, tap in enumerate(taps))


def spectrogram(x: jax.Array) -> jax.Array:
    """Frames that overlap by half, as long as they fit."""
    places = jnp.arange(0, len(x) - 256, 128)[:, None] + jnp.arange(256)
    return jnp.abs(jnp.fft.rfft(x[places] * jnp.hanning(256)))


def append(cache: jax.Array, rows: jax.Array, at: jax.Array) -> jax.Array:
    """Rows that may fall across two shards."""
    return lax.dynamic_update_slice_in_dim(cache, rows, at, 0)


def poisson(f: jax.Array) -> jax.Array:
    """Solves the Poisson equation on a torus."""
    k = jnp.fft.fftfreq(f.shape[0]) ** 2
    square = (k[:, None] + k[None, :]).at[0, 0].set(1)
    return jnp.fft.ifft2(jnp.fft.fft2(f) / square).real


def alternating(u: jax.Array) -> jax.Array:
    """One implicit step of the heat equation, along each dimension in turn."""

    def solve(u: jax.Array) -> jax.Array:
        beside = -jnp.ones(len(u))
        below, above = beside.at[0].set(0), beside.at[-1].set(0)
        return lax.linalg.tridiagonal_solve(below, 3 + 0 * beside, above, u)

    return solve(solve(u).T).T


def low_pass(x: jax.Array) -> jax.Array:
    """Real numbers without their high frequencies."""
    waves = jnp.fft.rfft(x)
    return jnp.fft.irfft(waves * (jnp.arange(waves.size) < 1000), x.size)


def cross_entropy(h: jax.Array, w: jax.Array, labels: jax.Array) -> jax.Array:
    logits = h @ w
    picked = jnp.take_along_axis(logits, labels[:, None], 1)[:, 0]
    return jnp.mean(jax.nn.logsumexp(logits, axis=1) - picked)


def loss_of_rows(x: jax.Array) -> jax.Array:
    """A loss of some of the rows, each of which is normalised by itself."""
    rows = x[1000:1800]
    return jnp.mean(jax.nn.logsumexp(rows, axis=1) - rows[:, 0])


def messages(nodes: jax.Array, senders: jax.Array, receivers: jax.Array) -> jax.Array:
    """One round of a graph network."""
    return jax.ops.segment_sum(jnp.tanh(nodes[senders]), receivers, nodes.shape[0])


def complex_product(re: jax.Array, im: jax.Array) -> Any:
    """The products of columns of complex numbers, in two arrays."""

    def body(left: Any, right: Any) -> Any:
        (a, b), (c, d) = left, right
        return a * c - b * d, a * d + b * c

    return lax.reduce((re / 64 + 1, im / 64), (jnp.float32(1), jnp.float32(0)), body, (0,))


def log_sum(x: jax.Array) -> Any:
    """Maxima of columns, and sums of exponentials below them."""

    def body(left: Any, right: Any) -> Any:
        most = jnp.maximum(left[0], right[0])
        one, other = (side[1] * jnp.exp(side[0] - most) for side in (left, right))
        return most, one + other

    start = jnp.float32(-1e30), jnp.float32(0)
    most, total = lax.reduce((x, jnp.ones_like(x)), start, body, (0,))
    return most + jnp.log(total)


def moments(x: jax.Array) -> Any:
    """Mean and squared deviation of columns, merged as Welford does."""

    def body(left: Any, right: Any) -> Any:
        (mean, square, count), (other, more, others) = left, right
        both, apart = count + others, other - mean
        square += more + apart**2 * count * others / both
        return mean + apart * others / both, square, both

    start = (jnp.float32(0),) * 3
    return lax.reduce((x, jnp.zeros_like(x), jnp.ones_like(x)), start, body, (0,))
