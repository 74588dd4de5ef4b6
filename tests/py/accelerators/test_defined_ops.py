"""Kernels that `dtensor.define_op` describes, compiled for TPUs: jax's own flash attention."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention

import dtensor
from dtensor.compiler.define_op import forget_registered
from dtensor.compiler.targets.hlo import hlo_collectives
from tests.py.accelerators.programs import layouts, shaped

TPU = "tpu:v5e:2x4"
MESH = dtensor.Mesh([("data", 2), ("model", 4)])
BATCH = ["data", None, None, None]
HEADS = ["data", "model", None, None]

flash: Callable[..., Any] = functools.partial(flash_attention, causal=True)


@pytest.fixture(autouse=True)
def _nothing_is_registered() -> Iterator[None]:
    yield
    forget_registered()


def attention() -> Callable[..., Any]:
    """Flash attention and its gradient, both defined, of `[batch, heads, length, features]`."""
    q, kv = "b h q d", "b h k d"
    attend = dtensor.define_op(
        "test.flash",
        f"{q}, {kv}, {kv} -> {q}",
        whole=("q", "k", "d"),
        flops="4 b h q k d",
        fn=lambda q, k, v: flash(q, k, v),
    )
    back = dtensor.define_op(
        "test.flash_gradient",
        f"{q}, {kv}, {kv}, {q} -> {q}, {kv}, {kv}",
        whole=("q", "k", "d"),
        flops="14 b h q k d",
        fn=lambda q, k, v, g: jax.vjp(flash, q, k, v)[1](g),
    )
    both = jax.custom_vjp(lambda q, k, v: attend(q, k, v))
    both.defvjp(lambda q, k, v: (attend(q, k, v), (q, k, v)), lambda kept, g: back(*kept, g))
    return both


def compiled_for(fn: Callable[..., Any], spec: list[Any]) -> dtensor.Compiled:
    (layout,) = layouts(MESH, spec)
    q, k = shaped(8, 4, 256, 128, dtype=jnp.bfloat16), shaped(8, 4, 512, 128, dtype=jnp.bfloat16)
    return dtensor.jit(fn, in_layouts=layout).lower(q, k, k, target=TPU).compile()


@pytest.mark.parametrize("spec", [BATCH, HEADS])
def test_flash_attention_gathers_nothing(spec: list[Any]) -> None:
    compiled = compiled_for(attention(), spec)
    text = compiled.as_text()
    assert not compiled.collectives
    assert not hlo_collectives(text, 8)
    assert text.count('custom_call_target="tpu_custom_call"') == 1
    (out,) = layouts(MESH, spec)
    assert compiled.out_layouts == out
    assert compiled.local_flops == 4 * 8 * 4 * 256 * 512 * 128 / out.shard_count


@pytest.mark.parametrize("spec", [BATCH, HEADS])
def test_nor_does_its_gradient(spec: list[Any]) -> None:
    attend = attention()

    def loss(q: Any, k: Any, v: Any) -> Any:
        return jnp.square(attend(q, k, v).astype(jnp.float32)).sum()

    compiled = compiled_for(jax.grad(loss, argnums=(0, 1, 2)), spec)
    assert not compiled.collectives
    assert not hlo_collectives(compiled.as_text(), 8)
    (out,) = layouts(MESH, spec)
    assert compiled.out_layouts == (out, out, out)


def test_without_a_definition_all_three_are_gathered() -> None:
    compiled = compiled_for(lambda q, k, v: flash(q, k, v), BATCH)
    assert [c.kind for c in compiled.collectives] == ["all_gather"] * 3
    assert [c.kind for c in hlo_collectives(compiled.as_text(), 8)] == ["all_gather"] * 3
