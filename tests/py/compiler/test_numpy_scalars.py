"""NumPy's scalars keep their element type, as with jax.jit; some are Python's numbers too."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from dtensor import Layout, copy_to_mesh, create_mesh, jit

SCALARS = [np.float64(0.001), np.complex128(1 + 2j), np.float32(0.1), np.int64(3), np.bool_(True)]
Compile = Callable[[Any], Any]


def by_keyword(jit: Compile, f: Any) -> Any:
    compiled = jit(lambda x, *, s: f(x, s))
    return lambda x, s: compiled(x, s=s)


def in_a_tree(jit: Compile, f: Any) -> Any:
    compiled = jit(lambda given: f(given[0], given[1]["s"]))
    return lambda x, s: compiled((x, {"s": s}))


def lowered(jit: Compile, f: Any) -> Any:
    return lambda x, s: jit(f).lower(x, s).compile()(x, s)


def alone(jit: Compile, f: Any) -> Any:
    return jit(lambda x, s: s)


# How a function is compiled by jax and by dtensor, and called with an array and a number.
WAYS: list[Any] = [lambda jit, f: jit(f), by_keyword, in_a_tree, lowered, alone]


@pytest.mark.parametrize("way", WAYS, ids=["call", *[way.__name__ for way in WAYS[1:]]])
@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "int32"])
def test_a_scalar_of_numpy_is_what_it_is_to_jax(dtype: str, x64: bool, way: Any) -> None:
    layout = Layout(["y"], create_mesh([("x", 2), ("y", 4)]))

    def function(x: Any, s: Any) -> Any:
        return x - s if s.dtype != bool else x * s

    whole: Any = jax.jit
    by_jax, by_dtensor = (way(each, function) for each in (whole, jit))
    x = np.arange(12).astype(jax.numpy.dtype(dtype))
    with jax.enable_x64(x64):
        array = copy_to_mesh(x, layout)
        for scalar in SCALARS:
            expected, found = by_jax(x, scalar), by_dtensor(array, scalar).to_jax()
            assert found.dtype == expected.dtype, scalar
            assert found.weak_type == expected.weak_type, scalar
            np.testing.assert_array_equal(found, expected)


def test_calls_with_a_number_and_with_a_scalar_of_numpy_alternate() -> None:
    mesh = create_mesh([("x", 8)])
    w = copy_to_mesh(np.ones(16, jax.numpy.bfloat16), Layout(["x"], mesh))
    step = jit(lambda w, rate: w - rate)
    for _ in range(2):
        assert step(w, 0.001).dtype == "bfloat16"
        assert step(w, np.float64(0.001)).dtype == np.float32
