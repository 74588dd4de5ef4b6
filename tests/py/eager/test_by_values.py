"""Functions whose results depend on the values of arguments, which are on the host."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import dtensor
import dtensor.numpy as dnp
from tests.py.eager.support import MESH_2X4, assert_same, placed

VALUES = np.arange(32, dtype=np.float32).reshape(8, 4)
COUNTS = np.arange(12, dtype=np.int32)
MASK = np.array([1, 0, 1, 1, 0, 0, 1, 0], bool)
X = placed(VALUES, MESH_2X4, "x", "y")
I = placed(COUNTS, MESH_2X4, "y")  # noqa: E741


@pytest.mark.parametrize(
    "call",
    [
        lambda n, x, i: n.compress([True, False, True], x, axis=0),
        lambda n, x, i: n.compress([True, False, True], x),
        lambda n, x, i: n.compress(MASK, x, 0),
        lambda n, x, i: n.compress(condition=[0, 1, 1, 0], a=x, axis=-1),
        lambda n, x, i: n.extract(COUNTS % 3 == 0, i),
        lambda n, x, i: n.extract([[True, False] * 3] * 2, i),
        lambda n, x, i: n.choose(np.array([0, 1] * 6), [i, -i]),
        lambda n, x, i: n.choose(i, [i, -i], mode="wrap"),
        lambda n, x, i: n.tril(x, np.int64(1)),
        lambda n, x, i: n.diff(x, n=np.int64(2), axis=np.int32(0)),
        lambda n, x, i: n.rot90(x, np.int32(3)),
    ],
)
@pytest.mark.parametrize("namespace", [dnp, np])
def test_conditions_and_counts_on_the_host(namespace: Any, call: Any) -> None:
    assert_same(call(namespace, X, I), call(np, VALUES, COUNTS))


def test_in_a_program_a_condition_on_the_host_is_one_too() -> None:
    @dtensor.jit
    def program(x: Any) -> Any:
        return dnp.compress(MASK, x, axis=0)

    assert_same(program(X), VALUES[MASK])


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: dnp.compress(I > 3, I), TypeError, "compress needs the values of an array"),
        (
            lambda: dnp.compress([False] * 8 + [True], X, axis=0),
            ValueError,
            "condition is true at 8, and the axis has 8 elements; give a condition as long as",
        ),
        (lambda: dnp.compress([[True]], X), ValueError, "condition has 2 dimensions; give one"),
        (
            lambda: dnp.choose(I % 2, [I, -I]),
            TypeError,
            "choose would look for indices out of bounds, but is compiled before there are any "
            "values; give mode='wrap' or mode='clip'",
        ),
        (
            lambda: dnp.choose(np.array([0, 2] * 6), [I, -I]),
            ValueError,
            "choose got 0 to 2 for 2 choices; give an index of each, or mode='wrap'",
        ),
    ],
)
def test_what_is_refused_says_why(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)


def test_a_size_is_jax_numpys() -> None:
    found = dnp.compress(COUNTS < 2, I, size=3, fill_value=7)
    assert_same(found, jnp.compress(COUNTS < 2, COUNTS, size=3, fill_value=7))
