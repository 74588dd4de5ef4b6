"""Gathered weights that are let go and gathered again, where one device would hold too much."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec

import dtensor
from dtensor.compiler.stages import Lowered
from dtensor.passes.cost.machine import Machine
from dtensor.runtime.client import create_mesh

MESH = create_mesh([("data", 8)])
SPLIT = PartitionSpec("data")
LAYERS, WIDTH, INNER = 5, 256, 1280  # messages that are not put together
MACHINE = "v5e"  # not that of the devices: XLA for CPUs orders kernels in another way


def parameters() -> list[dict[str, Any]]:
    draw = np.random.default_rng(3).normal
    return [
        {
            "u": np.asarray(draw(0.0, 0.03, (WIDTH, INNER)), np.float32),
            "w": np.asarray(draw(0.0, 0.03, (INNER, WIDTH)), np.float32),
        }
        for _ in range(LAYERS)
    ]


def block(p: dict[str, Any], x: Any) -> Any:
    return x + jnp.tanh(x @ p["u"]) @ p["w"]


def loss(layer: Callable[..., Any], params: Any, x: Any) -> Any:
    for p in params:
        x = layer(p, x)
    return jnp.mean(x * x)


def plain(params: Any, x: Any) -> Any:
    return jax.grad(lambda p: loss(block, p, x))(params)


def checkpointed(params: Any, x: Any) -> Any:
    return jax.grad(lambda p: loss(jax.checkpoint(block), p, x))(params)


def wide(params: Any, x: Any) -> Any:
    """Weights are gathered as bfloat16, and used as float32."""
    short = jax.tree.map(lambda v: v.astype(jnp.bfloat16), params)
    return jax.grad(lambda p: loss(block, jax.tree.map(lambda v: v.astype(x.dtype), p), x))(short)


def updated(params: Any, x: Any) -> Any:
    """The results take the memory of the parameters, which are gathered again until late."""
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, checkpointed(params, x))


def scanned(params: Any, x: Any) -> Any:
    """The peak stands in the body of a loop, between what reads `u` first and last."""
    few = jnp.linspace(-0.1, 0.1, 3 * INNER * 16).reshape(3 * INNER, 16)

    def turn(x: Any, layer: Any) -> tuple[Any, None]:
        wide = x @ layer["u"]
        parts = jnp.concatenate([jnp.tanh(wide), jnp.sin(wide), jnp.cos(wide)], axis=1) @ few
        return jnp.tanh(jnp.tanh(parts @ few[:INNER].T) @ layer["u"].T), None

    x, _ = lax.scan(turn, x, jax.tree.map(lambda *rows: jnp.stack(rows), *params))
    return jax.tree.map(lambda p: p + jnp.mean(x), params)


def accumulated(params: Any, x: Any) -> Any:
    """What is gathered once in front of a loop, and held all the time, is gathered in each turn."""

    def turn(total: Any, part: Any) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, checkpointed(params, part)), None

    parts = x.reshape(x.shape[0] // 3, 3, WIDTH).swapaxes(0, 1)
    return lax.scan(turn, jax.tree.map(jnp.zeros_like, params), parts)[0]


def lowered(step: Callable[..., Any], **options: Any) -> tuple[Lowered, Any]:
    rows = 6144 if step is accumulated else 1536
    x = np.random.default_rng(4).normal(size=(rows, WIDTH)).astype(np.float32)
    params = parameters()
    in_layouts = [{"u": SPLIT, "w": SPLIT}] * LAYERS
    jitted = dtensor.jit(
        step,
        mesh=MESH,
        in_layouts=(in_layouts, SPLIT),
        out_layouts=in_layouts,
        donate_argnums=0 if step is updated else (),
        options=dtensor.CompileOptions(**{"machine": MACHINE, **options}),
    )
    return jitted.lower(params, x), (params, x)


def peak(plan: Lowered) -> float:
    assert plan.memory is not None
    return plan.memory.peak_bytes


def again(plan: Lowered) -> list[dict[str, Any]]:
    return [r for r in plan.ledger["records"] if r["kind"] == "gathered_again"]


@pytest.mark.parametrize(
    ("step", "kept"),
    [(plain, 5), (checkpointed, 5), (wide, 5), (updated, 5), (scanned, 0.8), (accumulated, 6)],
)
def test_a_limit_is_kept_and_values_are_those_of_one_device(
    step: Callable[..., Any], kept: float
) -> None:
    free, _ = lowered(step)
    assert not again(free)
    limit = peak(free) - kept * WIDTH * INNER * 4  # of 10 that are gathered, or 1
    plan, args = lowered(step, max_bytes_per_device=limit)
    assert peak(plan) <= limit
    (record,) = again(plan)
    assert plan.wire_bytes - free.wire_bytes == pytest.approx(record["bytes"])
    assert record["bytes"] > 0
    assert plan.local_flops == pytest.approx(free.local_flops, rel=1e-3)  # convert twice
    found = jax.tree.leaves(plan.compile()(*args), is_leaf=dtensor.is_dtensor)
    for one, other in zip(jax.tree.leaves(jax.jit(step)(*args)), found, strict=True):
        rtol = 1e-2 if one.dtype == jnp.bfloat16 else 1e-4
        np.testing.assert_allclose(
            np.asarray(other.to_jax(), np.float32), np.asarray(one, np.float32), rtol, 1e-5
        )


def test_the_lower_the_limit_the_more_is_gathered_again() -> None:
    free, _ = lowered(checkpointed)
    most = peak(free)
    sent = []
    for part in (1.0, 0.9, 0.8, 0.75):
        plan, _ = lowered(checkpointed, max_bytes_per_device=part * most)
        assert peak(plan) <= part * most
        sent.append(plan.wire_bytes)
    assert sent == sorted(sent)
    assert free.wire_bytes == sent[0] < sent[-1]


def test_what_is_done_is_said() -> None:
    free, _ = lowered(checkpointed)
    plan, _ = lowered(checkpointed, max_bytes_per_device=0.8 * peak(free))
    for text in (str(plan), plan.explain()):
        assert "are gathered again where they are read next" in text
        assert "so that one device holds" in text


def test_a_limit_that_cannot_be_kept_is_an_error() -> None:
    with pytest.raises(dtensor.MemoryLimitError, match="max_bytes_per_device is 1000; split") as e:
        lowered(checkpointed, max_bytes_per_device=1000)[0].wire_bytes  # noqa: B018
    assert "x argument" in str(e.value)  # those of all layers together


def test_a_machine_that_has_too_little_is_enough() -> None:
    free, _ = lowered(checkpointed)
    small = replace(Machine.of(MACHINE), memory_bytes=int(peak(free) * 0.95))
    plan, _ = lowered(checkpointed, machine=small)
    assert peak(plan) <= 0.9 * small.memory_bytes
    assert again(plan)
    assert not [r for r in plan.ledger["records"] if r["kind"] == "over_memory"]


def test_a_budget_counts_what_is_sent_twice() -> None:
    free, _ = lowered(checkpointed)
    budget = dtensor.budget(max_bytes=free.wire_bytes)
    assert lowered(checkpointed, budget=budget)[0].wire_bytes == free.wire_bytes
    with pytest.raises(dtensor.BudgetError):
        lowered(checkpointed, budget=budget, max_bytes_per_device=0.8 * peak(free))[0].wire_bytes  # noqa: B018


def test_cpus_hold_to_no_barriers_and_refuse() -> None:
    free, _ = lowered(checkpointed, machine=None)
    with pytest.raises(dtensor.MemoryLimitError):
        lowered(checkpointed, machine=None, max_bytes_per_device=0.9 * peak(free))[0].wire_bytes  # noqa: B018
