"""A machine that is slower in everything gets the same plan, however long the program takes."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import dtensor
from dtensor.dialect.mesh import Mesh
from dtensor.passes.cost.machine import Level, Machine
from dtensor.passes.cost.model import Link
from dtensor.passes.reports.lock import lock_text

MESH = Mesh([("data", 2), ("model", 4)])


def machine(slower: float) -> Machine:
    """A host of eight devices, and how many times slower it is."""
    link = Link(alpha=1e-6 * slower, bytes_per_second=1e10 / slower)
    speed = 1e14 / slower
    flops = {"bf16": speed, "f32": speed / 2}
    memory = 2e12 / slower
    return Machine("slow", (Level("host", None, link),), flops, speed / 10, memory, 10**11)


def sent(slower: float) -> str:
    """The collectives of a training step with mixed precision in a loop of 40 batches."""

    def loss(params: Any, x: Any) -> Any:
        for up, down in params:
            x = x + jnp.tanh(x @ up.astype(x.dtype)) @ down.astype(x.dtype)
        return jnp.mean(x.astype(jnp.float32) ** 2)

    def train(params: Any, batches: Any) -> Any:
        def step(params: Any, x: Any) -> Any:
            grads = jax.grad(loss)(params, x)
            return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), None

        return jax.lax.scan(step, params, batches)[0]

    whole, rows = dtensor.Layout([None, None], MESH), dtensor.Layout([None, "data", None], MESH)
    weights = jax.ShapeDtypeStruct((256, 1024), jnp.float32)
    params = [(weights, jax.ShapeDtypeStruct((1024, 256), jnp.float32))] * 2
    layouts = [(whole, whole)] * 2
    step = dtensor.jit(
        train,
        in_layouts=(layouts, rows),
        out_layouts=layouts,
        options=dtensor.CompileOptions(machine=machine(slower)),
    )
    lowered = step.lower(params, jax.ShapeDtypeStruct((40, 512, 256), jnp.bfloat16))
    return lock_text(lowered.collectives, MESH)


@pytest.mark.parametrize("slower", [1e3, 1e6])
def test_the_plan_of_a_machine_that_is_slower_in_everything(slower: float) -> None:
    assert sent(slower) == sent(1.0)
