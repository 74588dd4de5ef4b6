"""NumPy's functions called with DTensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dtensor import UNSHARDED, DTensor, LayoutError
from tests.py.eager.support import MESH_2X4, MESH_3X2, assert_same, layout, message, placed

VALUES = (np.arange(24, dtype=np.float32) * 7 % 11 + 1).reshape(6, 4)


CALLS: list[Callable[[Any], Any]] = [
    lambda x: np.matmul(x.T, x),
    lambda x: np.sum(x, axis=0),
    lambda x: np.concatenate([x, x], axis=1),
    lambda x: np.stack([x, x * 2]),
    lambda x: np.where(x > 3, x, 0.0),
    lambda x: np.exp(x / 10),
    lambda x: np.add(x, 1),
    lambda x: np.multiply(2, x),
    lambda x: np.add.reduce(x, axis=1),
    lambda x: np.maximum.accumulate(x, axis=0),
    lambda x: np.linalg.norm(x, axis=1),
    lambda x: np.einsum("ij,ik->jk", x, x),
    lambda x: np.tensordot(x, x, axes=([0], [0])),
    lambda x: np.transpose(x),
    lambda x: np.reshape(x, (8, 3)),
    lambda x: np.split(x, 2, axis=0),
    lambda x: np.clip(x, 2, 5),
    lambda x: np.cumsum(x, axis=1),
    lambda x: np.mean(x, axis=0, keepdims=True),
    lambda x: np.argmax(x, axis=1),
    lambda x: np.expand_dims(x, 1),
    lambda x: np.broadcast_to(x[0], (3, 4)),
    lambda x: np.take(x, np.array([1, 3]), axis=1),
    lambda x: np.fft.fft(x, axis=1).real,
    lambda x: np.divmod(x, 3),
    lambda x: np.isfinite(x),
    lambda x: np.float32(2) * x,
    lambda x: np.zeros_like(x),
]


@pytest.mark.sweep
@pytest.mark.parametrize("index", range(len(CALLS)))
def test_functions_of_numpy(index: int) -> None:
    x = placed(VALUES, MESH_3X2, "x", "y")
    assert_same(CALLS[index](x), CALLS[index](VALUES), 1e-5)


def test_layouts_propagate() -> None:
    x = placed(VALUES, MESH_3X2, "x", "y")
    made: list[Any] = [np.sum(x, axis=0), np.exp(x), np.zeros_like(x)]
    assert made[0].layout == layout(MESH_3X2, "y")
    assert made[1].layout == made[2].layout == layout(MESH_3X2, "x", "y")
    added: Any = np.add(1, placed(VALUES, MESH_2X4, UNSHARDED, "y"))
    assert added.layout == layout(MESH_2X4, UNSHARDED, "y")


def test_facts_are_plain_values() -> None:
    x = placed(VALUES, MESH_3X2, "x", "y")
    assert np.shape(x) == (6, 4)
    assert np.ndim(x) == 2
    assert np.size(x) == 24
    assert np.iscomplexobj(x) is False
    assert np.result_type(x, np.float16) == np.float32
    assert np.allclose(x, x + 0)
    assert not np.array_equal(x, x + 1)


def test_reading_needs_a_replicated_array() -> None:
    whole: Any = placed([1, 2, 3], MESH_3X2)
    sharded: Any = placed(VALUES, MESH_3X2, "x")
    assert np.array2string(whole) == "[1 2 3]"
    with pytest.raises(LayoutError, match="no device holds all of it"):
        np.array2string(sharded)


def test_element_types_of_ufuncs() -> None:
    x = placed(VALUES, MESH_3X2, "x", "y")
    assert np.add(x, 1, dtype=np.float16).dtype == np.float16
    assert np.add.reduce(x, dtype=np.float16).dtype == np.float16


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda x: np.add(x, x, out=np.zeros((6, 4))),
            "numpy.add cannot write into out=: no DTensor changes; use what it returns",
        ),
        (lambda x: np.sum(x, out=np.zeros(())), "numpy.sum cannot write into out=: no DTensor"),
        (
            lambda x: np.add(x, x, where=np.ones((6, 4), bool)),
            "numpy.add cannot leave elements unwritten, as where= asks; use dtensor.numpy.where",
        ),
        (
            lambda x: np.add(x, x, casting="unsafe"),
            "numpy.add does not take casting='unsafe' for DTensors; leave it out",
        ),
        (
            lambda x: np.lib.stride_tricks.sliding_window_view(x, 2),
            "numpy.lib.stride_tricks.sliding_window_view is not for DTensors: jax.numpy has no",
        ),
        (lambda x: np.copyto(np.zeros((6, 4)), x), "numpy.copyto is not for DTensors: jax.numpy"),
    ],
)
def test_what_cannot_be_honoured_is_an_error(call: Any, text: str) -> None:
    x = placed(VALUES, MESH_3X2, "x", "y")
    assert text in message(lambda: call(x), TypeError)


def test_assigning_into_a_numpy_array_out_of_a_sharded_one_is_an_error() -> None:
    x = placed(VALUES, MESH_3X2, "x", "y")
    host = np.zeros((6, 4))
    with pytest.raises(LayoutError, match="no device holds all of it"):
        host[:] = x


def test_results_are_dtensors() -> None:
    x = placed(VALUES, MESH_3X2, "x", "y")
    assert isinstance(np.sum(x), DTensor)
    assert float(np.sum(x)) == VALUES.sum()
