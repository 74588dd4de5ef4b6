"""Float16, which ends at 65504."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dtensor
from tests.py.on_host import on_host

MESH = dtensor.create_mesh([("x", 8)])
ROWS, COLUMNS = dtensor.Layout(["x", None], MESH), dtensor.Layout([None, "x"], MESH)
WHOLE = dtensor.Layout([None, None], MESH)


@pytest.mark.parametrize("layouts", [(ROWS, ROWS, ROWS), (COLUMNS, ROWS, WHOLE)])
@pytest.mark.parametrize("size", [200.0, 3000.0])
def test_sums_that_cancel_do_not_overflow_on_the_way(layouts: Any, size: float) -> None:
    """Each shard adds up 128 products of one sign: 25,600 or 384,000, and half of them more."""
    *given, out = layouts
    x = np.full((64, 1024), size, np.float16)
    w = np.repeat(np.array([1, -1], np.float16), 512)[:, None] * np.ones((1, 32), np.float16)

    def product(x: Any, w: Any) -> Any:
        return x @ w

    got = dtensor.jit(product, in_layouts=tuple(given), out_layouts=out)(x, w)
    (have,) = on_host(got)
    assert have.dtype == jnp.float16
    np.testing.assert_array_equal(have, np.asarray(jax.jit(product)(x, w)))
