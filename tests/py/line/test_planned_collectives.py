"""What is planned is what XLA runs: collectives of the plan against those of the optimised HLO."""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import dtensor
from tests.py.line.hlo import wire_bytes

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))
gpt_step: Any = importlib.import_module("gpt_step")

U = dtensor.UNSHARDED
Program = tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...], Any]


def shaped(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def line(n: int = 8) -> dtensor.Mesh:
    return dtensor.create_mesh([("d", n)])


def grid() -> dtensor.Mesh:
    return dtensor.create_mesh([("data", 2), ("model", 4)])


def matmul(lhs: list[str], rhs: list[str], out: list[str]) -> Program:
    def layout(specs: list[str]) -> dtensor.Layout:
        return dtensor.Layout(specs, grid())

    args = (shaped(16, 32), shaped(32, 24))
    return (lambda a, b: a @ b), args, (layout(lhs), layout(rhs)), layout(out)


def mlp(tensor_parallel: bool) -> Program:
    mesh = line()
    first, second = ([U, "d"], ["d", U]) if tensor_parallel else ([U, U], [U, U])
    batch = dtensor.Layout([U, U] if tensor_parallel else ["d", U], mesh)
    layouts = (dtensor.Layout(first, mesh), dtensor.Layout(second, mesh))

    def loss(weights: Any, x: Any) -> Any:
        return jnp.square(x + jax.nn.gelu(x @ weights[0]) @ weights[1]).mean()

    def step(weights: Any, x: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(weights, x)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients), value

    args = ((shaped(16, 32), shaped(32, 16)), shaped(24, 16))
    return step, args, (layouts, batch), (layouts, dtensor.Layout([], mesh))


def scanned() -> Program:
    mesh = grid()
    weights = dtensor.Layout([U, U, "model"], mesh), dtensor.Layout([U, "model", U], mesh)
    batch = dtensor.Layout(["data", U], mesh)

    def loss(weights: Any, x: Any) -> Any:
        def layer(x: Any, w: Any) -> tuple[Any, None]:
            return x + jnp.tanh(x @ w[0]) @ w[1], None

        return jax.lax.scan(jax.checkpoint(layer), x, weights)[0].sum()

    args = ((shaped(3, 16, 32), shaped(3, 32, 16)), shaped(8, 16))
    return jax.grad(loss), args, (weights, batch), weights


def softmax() -> Program:
    mesh = line()
    layout = dtensor.Layout([U, "d"], mesh)
    return (
        (lambda x: jax.nn.softmax(x - x.mean(-1, keepdims=True))),
        (shaped(6, 32),),
        (layout,),
        layout,
    )


def exchange() -> Program:
    mesh = line()
    rows, columns = dtensor.Layout(["d", U], mesh), dtensor.Layout([U, "d"], mesh)

    def sort(x: jax.Array) -> jax.Array:
        return jnp.sort(dtensor.relayout(x, columns), 0)

    return sort, (shaped(16, 24),), (rows,), rows


def moves(element: Any) -> Program:
    """Narrow floats: an all_to_all, a neighbour's row and an all_gather. XLA has wider ones."""
    mesh = line()
    rows, columns = dtensor.Layout(["d", U], mesh), dtensor.Layout([U, "d"], mesh)
    whole = dtensor.Layout.replicated(mesh, rank=2)

    def fn(x: Any) -> tuple[Any, ...]:
        return x, jnp.roll(x, 1, 0), x

    return fn, (shaped(16, 24, dtype=element),), (rows,), (columns, rows, whole)


def embedding() -> Program:
    mesh = grid()
    table, ids = dtensor.Layout(["model", U], mesh), dtensor.Layout(["data", U], mesh)

    def loss(table: Any, ids: Any) -> Any:
        x = jnp.tanh(table[ids])
        logits = x @ table.T
        return (jax.nn.logsumexp(logits, -1) - logits[..., 0]).mean()

    args = (shaped(64, 16), shaped(8, 12, dtype=jnp.int32))
    return jax.value_and_grad(loss), args, (table, ids), (dtensor.Layout([], mesh), table)


def gpt(kind: str) -> Program:
    """One layer of the benchmark's GPT: Megatron's layouts, FSDP, or split moments (ZeRO-1)."""
    mesh = grid() if kind == "megatron" else line()
    params = gpt_step.parameters(1)

    def of(path: Any, leaf: Any, split: bool) -> dtensor.Layout:
        if kind == "megatron":
            return dtensor.Layout(gpt_step.SPECS[path[-1].key], mesh)
        whole = [U] * leaf.ndim
        dim = next((d for d, n in enumerate(leaf.shape) if n % 8 == 0), None)
        if split and dim is not None:
            whole[dim] = "d"
        return dtensor.Layout(whole, mesh)

    def tree(split: bool) -> Any:
        return jax.tree_util.tree_map_with_path(lambda p, x: of(p, x, split), params)

    weights, moments = tree(kind == "fsdp"), tree(True)
    scalar = dtensor.Layout([], mesh)
    batch = dtensor.Layout(["data" if kind == "megatron" else "d", U], mesh)
    text = shaped(8, gpt_step.LENGTH, dtype=jnp.int32)
    args = (params, params, params, shaped(dtype=jnp.int32), text, text)
    given = (weights, moments, moments, scalar, batch, batch)
    return gpt_step.step, args, given, (weights, moments, moments, scalar, scalar)


PROGRAMS: dict[str, Callable[[], Program]] = {
    "matmul that sums": lambda: matmul(["data", "model"], ["model", U], ["data", U]),
    "matmul that scatters": lambda: matmul([U, "model"], ["model", U], ["model", U]),
    "matmul in two dimensions": lambda: matmul(
        ["data", "model"], ["data", "model"], ["data", "model"]
    ),
    "data-parallel MLP": lambda: mlp(False),
    "tensor-parallel MLP": lambda: mlp(True),
    "scan with remat": scanned,
    "softmax on the split dimension": softmax,
    "exchange": exchange,
    "moves of bf16": lambda: moves(jnp.bfloat16),
    "moves of f8": lambda: moves(jnp.float8_e4m3fn),
    "split vocabulary": embedding,
    "GPT data and tensor parallel": lambda: gpt("megatron"),
    "GPT with FSDP": lambda: gpt("fsdp"),
    "GPT with ZeRO-1": lambda: gpt("zero1"),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_plan_is_what_xla_runs(name: str) -> None:
    fn, args, in_layouts, out_layouts = PROGRAMS[name]()
    compiled = (
        dtensor.jit(fn, in_layouts=in_layouts, out_layouts=out_layouts).lower(*args).compile()
    )
    planned: Counter[str] = Counter()
    for collective in compiled.collectives:
        assert collective.trip_count is not None
        planned[collective.kind] += round(collective.bytes * collective.trip_count)
        assert collective.location
        assert collective.reason
    assert planned == wire_bytes(compiled.as_text())
    assert compiled.wire_bytes == pytest.approx(
        sum(planned.values()), abs=len(compiled.collectives)
    )
