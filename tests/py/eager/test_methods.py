"""The methods of jax.Array on DTensors, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dtensor
from dtensor import UNSHARDED
from dtensor.runtime.operators import Methods
from tests.py.eager.support import MESH_2X4, MESH_3X2, assert_same, layout, placed

VALUES = (np.arange(6 * 4 * 2, dtype=np.float32) * 7 % 11 + 1).reshape(6, 4, 2)
SQUARE = VALUES[:4, :, 0]

# What is called on the array of three dimensions, on both sides.
CALLS: dict[str, Callable[[Any], Any]] = {
    "all": lambda x: (x > 1).all(axis=0),
    "any": lambda x: (x > 10).any(),
    "argmax": lambda x: x.argmax(axis=1),
    "argmin": lambda x: x.argmin(),
    "argsort": lambda x: x.argsort(axis=1, stable=True),
    "astype": lambda x: x.astype(np.int32),
    "clip": lambda x: x.clip(3, 7.5),
    "conj": lambda x: (x + 1j).conj(),
    "conjugate": lambda x: (x + 1j).conjugate(),
    "copy": lambda x: x.copy(),
    "cumprod": lambda x: x.cumprod(axis=2),
    "cumsum": lambda x: x.cumsum(axis=0),
    "diagonal": lambda x: x.diagonal(0, 1, 2),
    "dot": lambda x: x.dot(x[0, :2]),
    "flatten": lambda x: x.flatten(),
    "imag": lambda x: (x * 1j).imag,
    "mT": lambda x: x.mT,
    "max": lambda x: x.max(axis=(0, 2)),
    "mean": lambda x: x.mean(axis=1, keepdims=True),
    "min": lambda x: x.min(),
    "prod": lambda x: x.prod(axis=2),
    "ptp": lambda x: np.ptp(x, axis=1),
    "ravel": lambda x: x.ravel(),
    "real": lambda x: (x * (1 + 2j)).real,
    "repeat": lambda x: x.repeat(3, axis=1),
    "reshape": lambda x: x.reshape(4, -1),
    "round": lambda x: (x / 3).round(1),
    "searchsorted": lambda x: x.ravel()[:1].searchsorted(np.array([3])),
    "sort": lambda x: np.sort(x, axis=0),
    "squeeze": lambda x: x[:, :1].squeeze(1),
    "std": lambda x: x.std(axis=0),
    "sum": lambda x: x.sum(axis=0),
    "swapaxes": lambda x: x.swapaxes(0, 2),
    "T": lambda x: x.T,
    "take": lambda x: x.take(np.array([3, 0]), axis=1),
    "trace": lambda x: x[:, :2].trace(axis1=1, axis2=2),
    "transpose": lambda x: x.transpose(2, 0, 1),
    "var": lambda x: x.var(axis=2, ddof=1),
}
NOT_OF_NUMPY = {"device", "dtype", "layout", "mesh", "to_device"}


@pytest.mark.sweep
@pytest.mark.parametrize("name", CALLS)
def test_methods_give_what_numpy_gives(name: str) -> None:
    x = placed(VALUES, MESH_3X2, "x", UNSHARDED, "y")
    assert_same(CALLS[name](x), CALLS[name](VALUES), 2e-6)


def test_every_method_is_tested() -> None:
    public = {name for name in vars(Methods) if not name.startswith("_")}
    assert public - NOT_OF_NUMPY == set(CALLS)


@pytest.mark.parametrize(
    ("call", "specs"),
    [
        (lambda x: x.sum(axis=0), ("y",)),
        (lambda x: x.sum(), ()),
        (lambda x: x.max(axis=1), ("x",)),
        (lambda x: x.T, ("y", "x")),
        (lambda x: x.mean(axis=1, keepdims=True), ("x", UNSHARDED)),
    ],
)
def test_layouts_of_results(call: Any, specs: Any) -> None:
    assert call(placed(SQUARE, MESH_2X4, "x", "y")).layout == layout(MESH_2X4, *specs)


def test_methods_take_what_jax_arrays_take() -> None:
    x = placed(VALUES, MESH_3X2, "x")
    assert_same(x.sum(where=x > 3, axis=0), VALUES.sum(where=VALUES > 3, axis=0), 1e-5)
    assert_same(x.reshape((8, 6)), VALUES.reshape(8, 6))
    assert_same(x.reshape(np.array([8, 6])), VALUES.reshape(8, 6))
    assert_same(x.sort(axis=0, descending=True), -np.sort(-VALUES, axis=0))


def test_to_device_moves_to_another_mesh_or_layout() -> None:
    x = placed(VALUES, MESH_3X2, "x", UNSHARDED, "y")
    assert x.device == MESH_3X2
    assert x.to_device(MESH_3X2) is x
    there = dtensor.create_mesh([("y", 2), ("x", 3)], devices=[7, 6, 5, 4, 3, 2])
    moved = x.to_device(there)
    assert moved.layout == layout(there, "x", UNSHARDED, "y")
    assert_same(moved, VALUES)
    other = layout(MESH_3X2, UNSHARDED, "y", UNSHARDED)
    assert x.to_device(other).layout == other
    assert placed(1.0, MESH_3X2).to_device(MESH_2X4).layout == layout(MESH_2X4)


def test_to_device_refuses_what_cannot_lie_there() -> None:
    x = placed(VALUES, MESH_3X2, "x")
    alone = dtensor.create_mesh([("z", 2)])
    with pytest.raises(dtensor.LayoutError, match=r"to_device cannot keep .* on mesh\(z=2\)"):
        x.to_device(alone)
    with pytest.raises(TypeError, match="the device of a DTensor is its mesh"):
        x.to_device("cpu")
    with pytest.raises(TypeError, match="a mesh has no streams"):
        x.to_device(MESH_3X2, stream=1)  # type: ignore[arg-type]
