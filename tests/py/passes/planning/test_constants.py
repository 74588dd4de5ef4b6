"""What constants alone say is not sent, however large it is."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dtensor
from dtensor import Layout

MESH = dtensor.create_mesh([("x", 8)])


def angles(n: int) -> Any:
    return jnp.arange(n) * (jnp.arange(n)[:, None] + 0.5) * (jnp.pi / n)


def basis(n: int) -> Any:
    return jnp.cos(angles(n))


def basis_in_steps(n: int) -> Any:
    return lax.fori_loop(0, 3, lambda _, table: jnp.cos(table) + angles(n), jnp.zeros((n, n)))


@pytest.mark.parametrize("make", [basis, basis_in_steps])
def test_a_table_that_every_device_can_compute_is_not_gathered(
    make: Callable[[int], Any],
) -> None:
    n = 320  # cosines of 102,400 elements: a large operation

    def transform(x: Any) -> Any:
        table = make(n)
        return table @ x @ table.T

    step = dtensor.jit(
        transform,
        in_layouts=(Layout(["x", None], MESH),),
        out_layouts=Layout([None, None], MESH),
    )
    x = np.random.default_rng(0).normal(size=(n, n)).astype(np.float32)
    lowered = step.lower(x)
    moved = 7 / 8 * x.nbytes / 8  # by the argument, and by what is between the products
    assert lowered.wire_bytes == 2 * moved + 7 / 8 * x.nbytes
    if make is basis:
        expected = transform(x)
        found = lowered.compile()(x).to_jax()
        np.testing.assert_allclose(found, expected, atol=1e-4 * float(jnp.abs(expected).max()))
