"""Training steps: data parallel, sharded states, microbatches."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from benchmarks.against_jax.layers import block
from benchmarks.against_jax.workload import Workload, array, floats

Tree = Any
EIGHT = {"data": 8}


def mlp_loss(params: Tree, x: jax.Array, y: jax.Array) -> jax.Array:
    hidden = jax.nn.gelu(x @ params["up"] + params["bias"])
    return jnp.mean((hidden @ params["down"] - y) ** 2)


def descend(params: Tree, gradients: Tree) -> Tree:
    return jax.tree.map(lambda p, g: p - 0.01 * g, params, gradients)


def data_parallel_step(params: Tree, x: jax.Array, y: jax.Array) -> tuple[Tree, jax.Array]:
    value, gradients = jax.value_and_grad(mlp_loss)(params, x, y)
    return descend(params, gradients), value


def accumulate_step(params: Tree, x: jax.Array, y: jax.Array) -> tuple[Tree, jax.Array]:
    """`x` and `y` have a first dimension of microbatches."""

    def one(carry: Tree, batch: tuple[jax.Array, jax.Array]) -> tuple[Tree, jax.Array]:
        value, gradients = jax.value_and_grad(mlp_loss)(params, *batch)
        return jax.tree.map(jnp.add, carry, gradients), value

    zero = jax.tree.map(jnp.zeros_like, params)
    gradients, values = jax.lax.scan(one, zero, (x, y))
    return descend(params, gradients), values.mean()


def adam(params: Tree, first: Tree, second: Tree, gradients: Tree) -> tuple[Tree, Tree, Tree]:
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = jax.tree.map(lambda v, g: 0.95 * v + 0.05 * g * g, second, gradients)
    new = jax.tree.map(lambda p, m, v: p - 0.01 * m / (jnp.sqrt(v) + 1e-3), params, first, second)
    return new, first, second


def zero_step(
    params: Tree, first: Tree, second: Tree, x: jax.Array, y: jax.Array
) -> tuple[Tree, Tree, Tree, jax.Array]:
    value, gradients = jax.value_and_grad(mlp_loss)(params, x, y)
    return (*adam(params, first, second, gradients), value)


def transformer_loss(params: Tree, x: jax.Array) -> jax.Array:
    y, _ = jax.lax.scan(lambda x, layer: (block(layer, x), None), x, params)
    return jnp.mean((y - jnp.roll(x, 1, -1)) ** 2)


def transformer_step(
    params: Tree, first: Tree, second: Tree, x: jax.Array
) -> tuple[Tree, Tree, Tree, jax.Array]:
    value, gradients = jax.value_and_grad(transformer_loss)(params, x)
    return (*adam(params, first, second, gradients), value)


def transformer_descent(params: Tree, momentum: Tree, x: jax.Array) -> tuple[Tree, Tree, jax.Array]:
    value, gradients = jax.value_and_grad(transformer_loss)(params, x)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradients)
    return descend(params, momentum), momentum, value


def pipeline_step(params: Tree, batch: jax.Array, y: jax.Array) -> tuple[Tree, jax.Array]:
    """Stages, the first dimension of `params`, at once: each on what the one before it made.

    `batch` and `y` have a first dimension of microbatches; those enter one behind the other.
    """
    stages = len(params["up"])

    def stage(layer: Tree, x: jax.Array) -> jax.Array:
        return x + jax.nn.gelu(x @ layer["up"]) @ layer["down"]

    def loss(layers: Tree) -> jax.Array:
        def step(at: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
            at = jax.vmap(stage)(layers, jnp.roll(at, 1, 0).at[0].set(x))
            return at, at[-1]

        start = jnp.zeros((stages, *batch.shape[1:]))
        inputs = jnp.concatenate([batch, start[1:]])  # the last outputs need more steps
        _, made = jax.lax.scan(step, start, inputs)
        return jnp.mean((made[stages - 1 :] - y) ** 2)

    value, gradients = jax.value_and_grad(loss)(params)
    return descend(params, gradients), value


MLP = floats(up=(64, 256), bias=(256,), down=(256, 64))
WHOLE = {"up": P(), "bias": P(), "down": P()}
SPLIT = {"up": P("data"), "bias": P("data"), "down": P("data")}
ROWS = P("data")
BATCH = array(1024, 64)

LAYERS = floats(qkv=(4, 64, 3, 8, 8), out=(4, 8, 8, 64), up=(4, 64, 256), down=(4, 256, 64))
FSDP = {
    "qkv": P(None, "data"),
    "out": P(None, "data"),
    "up": P(None, "data"),
    "down": P(None, "data"),
}

THREE_AXES = {"data": 2, "fsdp": 2, "model": 2}
GRID = {
    "qkv": P(None, "fsdp", None, "model"),
    "out": P(None, "model", None, "fsdp"),
    "up": P(None, "fsdp", "model"),
    "down": P(None, "model", "fsdp"),
}
GRID_ROWS = P(("data", "fsdp"))

STAGES = floats(up=(4, 64, 256), down=(4, 256, 64))
BY_STAGE = {"up": P("stage"), "down": P("stage")}
MICROBATCHES = array(8, 32, 64)

WORKLOADS = {
    "data_parallel_mlp": Workload(
        "MLP training step, data parallel",
        EIGHT,
        data_parallel_step,
        (MLP, BATCH, BATCH),
        (WHOLE, ROWS, ROWS),
        (WHOLE, None),
        (0,),
    ),
    "gradient_accumulation": Workload(
        "MLP training step, 8 microbatches in `lax.scan`",
        EIGHT,
        accumulate_step,
        (MLP, array(8, 128, 64), array(8, 128, 64)),
        (WHOLE, P(None, "data"), P(None, "data")),
        (WHOLE, None),
        (0,),
    ),
    "zero1": Workload(
        "MLP training step, Adam with split moments (ZeRO-1)",
        EIGHT,
        zero_step,
        (MLP, MLP, MLP, BATCH, BATCH),
        (WHOLE, SPLIT, SPLIT, ROWS, ROWS),
        (WHOLE, SPLIT, SPLIT, None),
        (0, 1, 2),
        (2,),
    ),
    "fsdp_transformer": Workload(
        "transformer training step, 4 layers in `lax.scan`, FSDP",
        EIGHT,
        transformer_step,
        (LAYERS, LAYERS, LAYERS, array(16, 64, 64)),
        (FSDP, FSDP, FSDP, ROWS),
        (FSDP, FSDP, FSDP, None),
        (0, 1, 2),
        (2,),
    ),
    "three_axes": Workload(
        "transformer training step, 4 layers, data, fsdp and model axes",
        THREE_AXES,
        transformer_descent,
        (LAYERS, LAYERS, array(16, 64, 64)),
        (GRID, GRID, GRID_ROWS),
        (GRID, GRID, None),
        (0, 1),
    ),
    "pipeline": Workload(
        "MLP training step, a pipeline of 4 stages, 8 microbatches",
        {"stage": 4, "data": 2},
        pipeline_step,
        (STAGES, MICROBATCHES, MICROBATCHES),
        (BY_STAGE, P(None, "data"), P(None, "data")),
        (BY_STAGE, None),
        (0,),
    ),
}
