"""Where results come out that nobody laid out."""

from typing import Any

import jax.numpy as jnp
import numpy as np

import dtensor
from dtensor import Layout

MESH = dtensor.create_mesh([("x", 4), ("y", 2)])


def rotated(x: Any, positions: Any) -> Any:
    angles = positions[:, :, None, None] * jnp.arange(1.0, 9)
    return x * jnp.cos(angles) + jnp.roll(x, 4, -1) * jnp.sin(angles)


def test_where_given_layouts_disagree_a_small_array_moves_and_not_the_result() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(4, 16, 4, 8)).astype(np.float32)
    positions = random.integers(0, 64, (4, 16)).astype(np.int32)
    rows = Layout(["y", None, "x", None], MESH)
    step = dtensor.jit(rotated, in_layouts=(rows, Layout(["x", None], MESH)))
    lowered = step.lower(x, positions)
    assert lowered.wire_bytes < positions.nbytes
    found = lowered.compile()(x, positions)
    assert found.layout == rows
    np.testing.assert_allclose(found.to_jax(), rotated(x, positions), atol=2e-6)
