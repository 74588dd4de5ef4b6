"""Where results come out that nobody laid out."""

from typing import Any

import jax
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


WIDE = 1 << 15  # columns of so much work in each trip that they are divided, and not the trips


def test_what_a_loop_along_a_split_dimension_makes_comes_out_split() -> None:
    """Nothing given leads to the result; to have it whole, all devices would do all the work."""

    def states(x: Any) -> Any:
        return jax.lax.scan(lambda c, row: (jnp.tanh(c * row + 1),) * 2, x[0], x)[1]

    x = np.random.default_rng(0).normal(size=(32, WIDE)).astype(np.float32)
    lowered = dtensor.jit(states, in_layouts=Layout(["x", None], MESH)).lower(x)
    assert lowered.wire_bytes < x.nbytes / 4
    found = lowered.compile()(x)
    assert found.layout == Layout([None, "x"], MESH)
    np.testing.assert_allclose(found.to_jax(), states(x), atol=1e-6)


def test_a_loop_along_a_split_dimension_leaves_other_results_where_given_layouts_lead() -> None:
    def step(x: Any, y: Any) -> Any:
        last, states = jax.lax.scan(lambda c, row: (jnp.tanh(c * row + 1),) * 2, x[0], x)
        return states, y + last

    x = np.random.default_rng(0).normal(size=(32, WIDE)).astype(np.float32)
    y = np.random.default_rng(1).normal(size=(16, WIDE)).astype(np.float32)
    rows = Layout(["x", None], MESH)
    found = dtensor.jit(step, in_layouts=(rows, rows))(x, y)
    assert found[1].layout == rows
    np.testing.assert_allclose(found[1].to_jax(), step(x, y)[1], atol=1e-6)
