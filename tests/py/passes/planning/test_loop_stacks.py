"""What a scan stacks up stays where it is made: its gradient reads it whole, as it was written."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import dtensor
from dtensor import Layout

MESH = dtensor.create_mesh([("x", 8)])
STEPS, STATE = 512, 4


def loss(weights: Any, rows: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        row = jnp.convolve(row, jnp.ones(3), mode="same")  # not known for blocks of trips
        state = jnp.tanh(weights @ state + row)
        return state, state

    return jnp.sum(lax.scan(step, jnp.zeros(STATE), rows)[1] ** 2)


def test_the_states_of_a_scan_are_not_split_to_be_gathered() -> None:
    """The rows are gathered once, 7/8 of their bytes; states and their gradients never are."""
    random = np.random.default_rng(0)
    weights = 0.5 * np.eye(STATE, dtype=np.float32)
    rows = random.normal(size=(STEPS, STATE)).astype(np.float32)
    step = jax.value_and_grad(loss, (0, 1))
    layouts = Layout([None, None], MESH), Layout(["x", None], MESH)
    compiled = dtensor.jit(step, in_layouts=layouts).lower(weights, rows).compile()
    assert [(c.kind, c.shape) for c in compiled.collectives] == [("all_gather", rows.shape)]
    assert compiled.wire_bytes == rows.nbytes * 7 / 8
    found, expected = compiled(weights, rows), jax.jit(step)(weights, rows)
    for mine, right in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(mine), right, rtol=1e-5, atol=1e-6)


def test_the_weights_of_a_scan_are_gathered_a_layer_at_a_time_however_dear_messages_are() -> None:
    """One gather of all layers would save the start of 11 others, and hold 8 times the shards."""
    mesh, layers, width = dtensor.Mesh.abstract([("data", 8)]), 12, 256

    def layer(x: Any, w: Any) -> Any:
        return x + jnp.tanh(x @ w["up"]) @ w["down"], None

    def loss(params: Any, x: Any) -> Any:
        return jnp.mean(lax.scan(jax.checkpoint(layer), x, params)[0] ** 2)

    def shape(*sizes: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(sizes, jnp.float32)

    params = {"up": shape(layers, width, 4 * width), "down": shape(layers, 4 * width, width)}
    given = {"up": Layout([None, None, "data"], mesh), "down": Layout([None, "data", None], mesh)}
    plan = dtensor.jit(
        jax.grad(loss),
        in_layouts=(given, Layout(["data", None], mesh)),
        out_layouts=given,
        options=dtensor.CompileOptions(machine="h100"),
    ).lower(params, shape(4096, width))
    gathers = [c for c in plan.collectives if c.kind == "all_gather"]
    assert sorted(c.shape for c in gathers) == sorted([(width, 4 * width), (4 * width, width)] * 2)
    assert {c.trip_count for c in gathers} == {layers}
