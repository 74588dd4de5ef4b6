"""Layouts of a 2x4 mesh, in a fixed order, and arrays to lay out."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import jax.numpy as jnp
import numpy as np

import dtensor

EPSILON = {"float32": 2.0**-23, "bfloat16": 2.0**-7}
SIZES = {"x": 2, "y": 4}


def mesh() -> dtensor.Mesh:
    """The mesh of every test here."""
    return dtensor.create_mesh(list(SIZES.items()))


def all_layouts(shape: tuple[int, ...]) -> list[dtensor.Layout]:
    """Every layout of an array: each axis nowhere or on a dimension, in either order."""
    found: dict[dtensor.Layout, None] = {}
    places = [None, *range(len(shape))]
    for order in (("x", "y"), ("y", "x")):
        for chosen in itertools.product(places, repeat=2):
            specs: list[list[str]] = [[] for _ in shape]
            for axis, dim in zip(order, chosen, strict=True):
                if dim is not None:
                    specs[dim].append(axis)
            parts = [math.prod(SIZES[a] for a in spec) for spec in specs]
            if all(n % p == 0 for n, p in zip(shape, parts, strict=True)):
                entries = [tuple(spec) if spec else dtensor.UNSHARDED for spec in specs]
                found[dtensor.Layout(entries, mesh())] = None
    return list(found)


def sample(shapes: list[tuple[int, ...]], count: int, seed: int | str) -> list[tuple[Any, ...]]:
    """`count` combinations of layouts of arrays, always the same ones."""
    choices = [all_layouts(shape) for shape in shapes]
    if math.prod(map(len, choices)) <= count:
        return list(itertools.product(*choices))
    chooser = random.Random(seed)
    return [tuple(chooser.choice(c) for c in choices) for _ in range(count)]


def array(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray[Any, Any]:
    """Small numbers: exact in every type used, so that sums of integers and halves agree."""
    values = np.random.default_rng(seed).integers(-3, 4, shape)
    return np.asarray(values).astype(jnp.dtype(dtype))


def assert_same(got: Any, want: Any, what: str) -> None:
    """Compare a result with one device's.

    Integers and booleans must be equal. Floats may differ by the order of sums: at most 24 terms
    are added, so 24 roundings of the type at the scale of the largest element.
    """
    got, want = np.asarray(got.to_jax()), np.asarray(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype), what
    if not jnp.issubdtype(want.dtype, jnp.floating):
        np.testing.assert_array_equal(got, want, err_msg=what)
        return
    scale = float(np.max(np.abs(want.astype(np.float64)), initial=1e-6))
    tolerance = 24 * EPSILON[want.dtype.name] * scale
    np.testing.assert_allclose(
        got.astype(np.float64), want.astype(np.float64), rtol=0, atol=tolerance, err_msg=what
    )
