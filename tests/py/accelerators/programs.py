"""Programs to compile for other machines: each a function with its arguments and layouts."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import dtensor

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))
gpt_step: Any = importlib.import_module("gpt_step")

U = dtensor.UNSHARDED
Program = tuple[Callable[..., Any], tuple[Any, ...], Any, Any]


def shaped(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def layouts(mesh: dtensor.Mesh, *specs: list[Any]) -> tuple[dtensor.Layout, ...]:
    return tuple(dtensor.Layout(spec, mesh) for spec in specs)


def matmul(mesh: dtensor.Mesh) -> Program:
    """A sum over "model": one all_reduce."""
    args = (shaped(512, 1024), shaped(1024, 384))
    lhs, rhs, out = layouts(mesh, ["data", "model"], ["model", U], ["data", U])
    return (lambda a, b: a @ b), args, (lhs, rhs), out


def mlp_step(mesh: dtensor.Mesh) -> Program:
    """A training step, the batch over "data", the hidden dimension over "model"."""

    def loss(weights: Any, x: Any) -> Any:
        return jnp.square(x + jax.nn.gelu(x @ weights[0]) @ weights[1]).mean()

    def step(weights: Any, x: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(weights, x)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients), value

    args = ((shaped(256, 1024), shaped(1024, 256)), shaped(512, 256))
    first, second, batch, scalar = layouts(mesh, [U, "model"], ["model", U], ["data", U], [])
    return step, args, ((first, second), batch), ((first, second), scalar)


def all_kinds(mesh: dtensor.Mesh) -> Program:
    """All five kinds of collective, each at least once."""
    rows, columns, whole = layouts(mesh, ["data", "model"], ["model", "data"], [U, U])
    scattered, summed = layouts(mesh, ["data", "model"], ["data", U])

    def program(x: Any, a: Any, b: Any, z: Any) -> Any:
        turned = dtensor.relayout(x * 2, columns)
        product = a @ b
        return turned, product, jnp.tanh(a) @ b, dtensor.relayout(jnp.sin(z), whole)

    args = (shaped(512, 1024), shaped(512, 1024), shaped(1024, 2048), shaped(256, 128))
    given = (rows, *layouts(mesh, ["data", "model"], ["model", U]), rows)
    return program, args, given, (columns, summed, scattered, whole)


def loop(mesh: dtensor.Mesh) -> Program:
    """A while loop of five turns with collectives in its body."""

    def program(x: Any, w: Any) -> Any:
        def body(carry: Any) -> Any:
            turn, x = carry
            return turn + 1, jnp.tanh(x @ w[0]) @ w[1]

        return jax.lax.while_loop(lambda carry: carry[0] < 5, body, (0, x))[1]

    batch, first, second = layouts(mesh, ["data", U], [U, "model"], ["model", U])
    args = (shaped(256, 512), (shaped(512, 1024), shaped(1024, 512)))
    return program, args, (batch, (first, second)), batch


def gather_and_scatter(mesh: dtensor.Mesh) -> Program:
    """Rows read from a split table, and added into it."""

    def program(table: Any, rows: Any, update: Any) -> Any:
        return table[rows], table.at[rows].add(update)

    args = (shaped(4096, 512), shaped(256, dtype=jnp.int32), shaped(256, 512))
    table, rows, update = layouts(mesh, ["model", U], ["data"], ["data", U])
    return program, args, (table, rows, update), (update, table)


def experts(mesh: dtensor.Mesh) -> Program:
    """Rows in groups, each with a matrix of its own, and the gradients of the matrices."""

    def step(rows: Any, weights: Any, sizes: Any) -> Any:
        def loss(weights: Any) -> Any:
            return jnp.square(jax.lax.ragged_dot(rows, weights, sizes)).sum()

        return weights - 0.1 * jax.grad(loss)(weights)

    rows, weights, sizes = layouts(mesh, ["data", U], ["model", U, U], [U])
    args = (shaped(4096, 512), shaped(8, 512, 1024), shaped(8, dtype=jnp.int32))
    return step, args, (rows, weights, sizes), weights


def gpt(mesh: dtensor.Mesh) -> Program:
    """A training step of a GPT of one layer with the layouts of Megatron."""
    params = gpt_step.parameters(1)
    weights = jax.tree_util.tree_map_with_path(
        lambda path, _: dtensor.Layout(gpt_step.SPECS[path[-1].key], mesh), params
    )
    scalar, batch = layouts(mesh, [], ["data", U])
    text = shaped(4 * mesh.axis_size("data"), gpt_step.LENGTH, dtype=jnp.int32)
    args = (params, params, params, shaped(dtype=jnp.int32), text, text)
    given = (weights, weights, weights, scalar, batch, batch)
    return gpt_step.step, args, given, (weights, weights, weights, scalar, scalar)


PROGRAMS: dict[str, Callable[[dtensor.Mesh], Program]] = {
    "matmul": matmul,
    "MLP training step": mlp_step,
    "all five kinds": all_kinds,
    "while loop": loop,
    "gather and scatter": gather_and_scatter,
    "groups of rows": experts,
    "GPT training step": gpt,
}
