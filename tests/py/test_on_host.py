"""Arrays read on the host are what jax makes of them, of any layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dtensor
from tests.py.on_host import on_host

MESH = dtensor.create_mesh([("x", 2), ("y", 4)])


@pytest.mark.parametrize("specs", [["x", "y"], [("y", "x"), None], [None, "y"], [None, None]])
@pytest.mark.parametrize("shape", [(8, 8), (13, 3), (1, 0), (5, 4)])
def test_the_elements_are_those_of_the_array(specs: list[Any], shape: tuple[int, int]) -> None:
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1
    array = dtensor.copy_to_mesh(values, dtensor.Layout(specs, MESH))
    (found, again) = on_host({"a": array, "b": [array]})
    np.testing.assert_array_equal(found, values)
    np.testing.assert_array_equal(again, np.asarray(array.to_jax()))
