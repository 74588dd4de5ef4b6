"""Operations that are written as others, against whole numbers of Python."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

import dtensor
from dtensor import Layout

MESH = dtensor.create_mesh([("x", 8)])
ROWS = Layout(["x", None], MESH)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("kind", ["int", "uint"])
def test_the_high_half_of_a_product(kind: str, bits: int) -> None:
    dtype: Any = np.dtype(f"{kind}{bits}")
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    random = np.random.default_rng(bits)
    a, b = (random.integers(low, high, (16, 5), dtype, endpoint=True) for _ in range(2))
    a[0, :4], b[0, :4] = (low, high, low, high), (low, high, high, low)
    expected = (a.astype(object) * b.astype(object) >> bits).astype(dtype)
    with jax.enable_x64(True):
        multiply = dtensor.jit(lax.mulhi, in_layouts=(ROWS, ROWS), returns="jax")
        found = np.asarray(multiply(a, b))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, expected)
