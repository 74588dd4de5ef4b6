"""Window reductions from values that change the result, on 8 devices against one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

from dtensor.dialect.layout import UNSHARDED
from dtensor.runtime.client import create_mesh
from tests.py.passes.on_mesh import GRID, LINE, run

THREE = create_mesh([("x", 3), ("y", 2)])
LAYOUTS = [(LINE, ["x", UNSHARDED]), (GRID, ["y", "x"]), (THREE, ["x", "y"])]
Window = dict[str, Any]
# Padded at both ends, with stride, dilated, far beyond the end, and a scan.
WINDOWS: dict[str, Window] = {
    "padded": {"size": (3, 1), "padding": ((1, 1), (0, 0))},
    "strided": {"size": (2, 3), "stride": (1, 2), "padding": ((1, 0), (1, 1))},
    "dilated": {"size": (2, 1), "padding": ((1, 1), (0, 0)), "dilation": (2, 1)},
    "far": {"size": (3, 1), "padding": ((5, 4), (0, 0))},
    "inside": {"size": (3, 1), "padding": ((0, 0), (0, 0))},
}


def reduced(body: Any, start: Any, window: Window) -> Callable[[Any], Any]:
    """`start` is a number, or what makes one of the array."""

    def function(a: Any) -> Any:
        init = start(a) if callable(start) else np.asarray(start, a.dtype)[()]
        stride, dilation = window.get("stride", (1, 1)), window.get("dilation")
        return lax.reduce_window(
            a, init, body, window["size"], stride, window["padding"], None, dilation
        )

    return function


def numbers(shape: tuple[int, int], dtype: Any) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(1, 4, shape).astype(dtype)


STARTS = {
    "sum": (lax.add, 2),
    "product": (lax.mul, -1),
    "computed": (lax.add, lambda a: a[0, 0] + 3),
    "maximum": (lax.max, 2),
    "no reduction": (lambda a, b: a + b + a * b, 1),
}


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("start", STARTS)
def test_each_window_meets_its_start_once(start: str, window: str, dtype: Any) -> None:
    body, init = STARTS[start]
    function = reduced(body, init, WINDOWS[window])
    # Half of the meshes with float32; of the other type one for each of the two shapes, in turn.
    turn = list(WINDOWS).index(window) + list(STARTS).index(start)
    for k, shape in enumerate(((8, 16), (9, 5))):
        meshes = (
            LAYOUTS[(turn + k) % 2 :: 2]
            if dtype is np.float32
            else [LAYOUTS[(turn + k) % len(LAYOUTS)]]
        )
        for mesh, specs in meshes:
            run(function, mesh, [specs], numbers(shape, dtype), error=1e-6)


def test_two_starts_of_one_window() -> None:
    def function(a: Any) -> Any:
        def body(x: Any, y: Any) -> Any:
            return x[0] + y[0], lax.mul(x[1], y[1])

        inits = (np.float32(1), np.float32(3))
        return lax.reduce_window((a, 2 * a), inits, body, (3, 1), (1, 1), ((1, 1), (0, 0)))

    for mesh, specs in LAYOUTS:
        run(function, mesh, [specs], numbers((9, 5), np.float32))


def test_a_scan_meets_its_start_as_often_as_on_one_device() -> None:
    """XLA computes long ones in two steps, each from the init value."""

    def function(a: Any) -> Any:
        return lax.reduce_window(a, 3, lax.add, (64, 1), (1, 1), ((63, 0), (0, 0)))

    for mesh, specs in LAYOUTS:
        run(function, mesh, [specs], numbers((64, 5), np.int32))


def test_a_reduction_meets_its_start_once() -> None:
    def function(a: Any) -> Any:
        bodies = ((lax.add, 2), (lax.mul, -1), (lax.max, 2), (lax.min, 2))
        return [
            lax.reduce(a, np.asarray(start, a.dtype)[()], body, dims)
            for body, start in bodies
            for dims in ((0,), (1,), (0, 1))
        ]

    for mesh, specs in LAYOUTS:
        run(function, mesh, [specs], numbers((9, 5), np.int32))


def test_one_device_meets_it_once_too() -> None:
    """The specification's padding holds init values; XLA's holds nothing."""
    x = np.array([[1], [2], [3]], np.int32)
    found = jax.jit(reduced(lax.add, 10, WINDOWS["padded"]))(x)
    np.testing.assert_array_equal(found[:, 0], [13, 16, 15])
