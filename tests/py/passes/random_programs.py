"""Random programs under random layouts: a seed makes a function, its arguments and their layouts.

Every choice comes from `random.Random(seed)`, so that a failing seed is a failing test case. The
operations are those that meet in models, and constraints in forms that few people write.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dtensor.compiler.relayout import relayout
from dtensor.dialect.axes import AxisRef
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.client import create_mesh

SIZES = (2, 4, 6, 8, 12, 16, 24)
MAX_ELEMENTS = 20_000
Array = Any
Step = Callable[[random.Random, list[Array], Array, Mesh], Array]


@dataclass(frozen=True)
class Program:
    """A function of arrays, arguments for it, and layouts, None where the compiler may choose."""

    function: Callable[..., list[Array]]
    arguments: tuple[NDArray[np.float32], ...]
    mesh: Mesh
    in_layouts: tuple[Layout | None, ...]
    out_layouts: Callable[[Sequence[Array]], list[Layout | None]]


def program(seed: int) -> Program:
    """The program that a seed makes."""
    rng = random.Random(seed)
    mesh = rng.choice(meshes())
    shapes = [_shape(rng) for _ in range(rng.randint(1, 3))]
    steps, body_seed = rng.randint(1, 16), rng.randrange(1 << 30)
    numbers = np.random.default_rng(seed)

    def function(*arguments: Array) -> list[Array]:
        inner = random.Random(body_seed)
        values = list(arguments)
        for _ in range(steps):
            made = inner.choice(STEPS)(inner, values, inner.choice(values), mesh)
            if made.ndim <= 4 and 0 < made.size <= MAX_ELEMENTS:
                values.append(made)
        return values[-inner.randint(1, min(3, len(values))) :]

    def out_layouts(results: Sequence[Array]) -> list[Layout | None]:
        inner = random.Random(body_seed + 1)
        return [
            random_layout(inner, r.shape, mesh) if inner.random() < 0.4 else None for r in results
        ]

    return Program(
        function,
        tuple(numbers.normal(size=s).astype(np.float32) for s in shapes),
        mesh,
        tuple(random_layout(rng, s, mesh) if rng.random() < 0.8 else None for s in shapes),
        out_layouts,
    )


def meshes() -> list[Mesh]:
    """Two axes of different size, three small ones, and one that is cut into parts."""
    return [
        create_mesh(axes) for axes in ([("x", 2), ("y", 4)], [(a, 2) for a in "xyz"], [("x", 8)])
    ]


def _shape(rng: random.Random) -> tuple[int, ...]:
    return tuple(rng.choice(SIZES) for _ in range(rng.randint(1, 3)))


def random_layout(rng: random.Random, shape: Sequence[int], mesh: Mesh) -> Layout:
    """Axes and parts of axes, in any order, on dimensions that they divide."""
    return Layout([tuple(word) or None for word in _words(rng, shape, mesh)], mesh)


def _words(rng: random.Random, shape: Sequence[int], mesh: Mesh) -> list[list[Any]]:
    axes: list[AxisRef] = []
    for name, size in mesh.axes:
        if size > 2 and rng.random() < 0.3:
            axes += [AxisRef(name, 1, 2), AxisRef(name, 2, size // 2)]
        else:
            axes.append(mesh.axis(name))
    rng.shuffle(axes)
    words: list[list[Any]] = [[] for _ in shape]
    for axis in axes:
        dims = [d for d in range(len(shape)) if _divides(shape[d], words[d], axis.size)]
        if dims and rng.random() < 0.6:
            words[rng.choice(dims)].append(axis)
    return words


def _divides(size: int, word: Sequence[AxisRef], more: int) -> bool:
    for axis in word:
        more *= axis.size
    return size % more == 0


# One step of a program each: a new value from `x`, one of the values so far.


def _constraint(rng: random.Random, values: list[Array], x: Array, mesh: Mesh) -> Array:
    words = _words(rng, x.shape, mesh)
    for dim, word in enumerate(words):
        if word and rng.random() < 0.3:
            blocks = [b for b in (2, 3) if _divides(x.shape[dim], word, b)]
            word[:0] = blocks[:1]
        if rng.random() < 0.3:
            word.append("?")
    return relayout(x, Layout([tuple(word) or None for word in words], mesh))


def _tanh(rng: random.Random, values: list[Array], x: Array, mesh: Mesh) -> Array:
    return jnp.tanh(x)


def _gradient(rng: random.Random, values: list[Array], x: Array, mesh: Mesh) -> Array:
    return jax.grad(lambda a: (jnp.tanh(a) * a).sum())(x)


def _add(rng: random.Random, values: list[Array], x: Array, mesh: Mesh) -> Array:
    return x + rng.choice([v for v in values if v.shape == x.shape])


def _multiply(rng: random.Random, values: list[Array], x: Array, mesh: Mesh) -> Array:
    return x * rng.choice([v for v in values if v.shape == x.shape]) * 0.5


def _transpose(rng: random.Random, values: list[Array], x: Array, mesh: Mesh) -> Array:
    return jnp.transpose(x, rng.sample(range(x.ndim), x.ndim))


def _contract(rng: random.Random, values: list[Array], x: Array, mesh: Mesh) -> Array:
    pairs = [
        (v, i, j)
        for v in values
        for i, n in enumerate(x.shape)
        for j, m in enumerate(v.shape)
        if n == m and x.size * v.size // n**2 <= MAX_ELEMENTS // 4
    ]
    if not pairs:
        return x
    v, i, j = rng.choice(pairs)
    return jnp.tensordot(x, v, ((i,), (j,))) / x.shape[i]


def _reshape(rng: random.Random, values: list[Array], x: Array, mesh: Mesh) -> Array:
    n = x.size
    f = rng.choice([f for f in (1, 2, 3, 4, 6, 8) if n % f == 0])
    return x.reshape(rng.choice([(n,), (f, n // f), (n // f, f)]))


def _broadcast(rng: random.Random, values: list[Array], x: Array, mesh: Mesh) -> Array:
    return jnp.broadcast_to(x[..., None], (*x.shape, rng.choice([2, 4, 8])))


def _choose(rng: random.Random, values: list[Array], x: Array, mesh: Mesh) -> Array:
    return jax.lax.cond(x.max() > 0.0123, lambda a: a * 2, jnp.tanh, x)


def _loop(rng: random.Random, values: list[Array], x: Array, mesh: Mesh) -> Array:
    return jax.lax.fori_loop(0, 3, lambda _, a: jnp.tanh(a) + x * 0.1, x)


def _along(step: Callable[[random.Random, Array, int], Array]) -> Step:
    """A step along some dimension; scalars stay."""

    def take(rng: random.Random, values: list[Array], x: Array, mesh: Mesh) -> Array:
        return step(rng, x, rng.randrange(x.ndim)) if x.ndim else x

    return take


def _scan(rng: random.Random, x: Array, dim: int) -> Array:
    rows = jnp.moveaxis(x, dim, 0)
    return jax.lax.scan(lambda c, r: (c * 0.5 + r, c + r), jnp.zeros(rows.shape[1:]), rows)[1]


def _mask(rng: random.Random, x: Array, dim: int) -> Array:
    count = jax.lax.broadcasted_iota(jnp.int32, x.shape, dim)
    return jnp.where(count % 3 == 0, x, 0.0)


def _take(rng: random.Random, x: Array, dim: int) -> Array:
    n = x.shape[dim]
    return jnp.take(x, jnp.array([0, n // 2, n - 1, 0]), axis=dim)


STEPS: tuple[Step, ...] = (
    _constraint,
    _constraint,
    _tanh,
    _gradient,
    _add,
    _multiply,
    _transpose,
    _contract,
    _contract,
    _reshape,
    _broadcast,
    _choose,
    _loop,
    _along(_scan),
    _along(_mask),
    _along(_take),
    _along(lambda rng, x, dim: x.sum(dim)),
    _along(lambda rng, x, dim: x.max(dim)),
    _along(lambda rng, x, dim: x - x.mean(dim, keepdims=True)),
    _along(lambda rng, x, dim: jnp.concatenate([x, x * 2], dim)),
    _along(lambda rng, x, dim: jax.lax.slice_in_dim(x, 0, -(-x.shape[dim] // 2), axis=dim)),
    _along(lambda rng, x, dim: jnp.sort(x, dim)),
    _along(lambda rng, x, dim: jnp.flip(x, dim)),
    _along(lambda rng, x, dim: jnp.roll(x, rng.randrange(1, 9), dim)),
    _along(lambda rng, x, dim: jnp.cumsum(x, dim) / x.shape[dim]),
    _along(lambda rng, x, dim: jnp.fft.fft(x, axis=dim).real / x.shape[dim]),
    _along(lambda rng, x, dim: jnp.diff(x, axis=dim, prepend=0.0)),
)
