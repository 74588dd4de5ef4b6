"""cuDNN's attention, planned for GPUs and run on CPUs by attention that is written out."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.cudnn import fused_attention_stablehlo

from tests.py.passes.on_mesh import GRID, sent
from tests.py.twins import run_for

GPU = "gpu:h100:8"
BATCHES, QUERIES, KEYS, HEADS, FEATURES = 4, 10, 12, 8, 16
SPLIT = ["x", None, "y", None]


@pytest.fixture(autouse=True)
def _there_is_a_cudnn(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """JAX asks the library and the GPU whether they can do it."""
    monkeypatch.setattr(fused_attention_stablehlo, "check_cudnn_version", lambda: 91000)
    monkeypatch.setattr(fused_attention_stablehlo, "check_compute_capability", lambda _: True)
    yield
    jax.clear_caches()


def values(*shape: int) -> Any:
    return jnp.asarray(np.random.default_rng(len(shape)).normal(size=shape), jnp.bfloat16)


def three(heads_of_keys: int = HEADS) -> tuple[Any, Any, Any]:
    key = values(BATCHES, KEYS, heads_of_keys, FEATURES)
    return values(BATCHES, QUERIES, HEADS, FEATURES), key, key[:, ::-1]


def attend(implementation: Any, q: Any, k: Any, v: Any, bias: Any = None, **how: Any) -> Any:
    made = jax.nn.dot_product_attention(q, k, v, bias, implementation=implementation, **how)
    return made.astype(jnp.float32)


def gradients(implementation: str, *arrays: Any, **how: Any) -> Any:
    def loss(*arrays: Any) -> Any:
        return jnp.sin(attend(implementation, *arrays, **how)).sum()

    return jax.grad(loss, argnums=tuple(range(len(arrays))))(*arrays)


def check(function: Any, *arrays: Any, specs: Any = None, **how: Any) -> Any:
    return run_for(
        GPU,
        functools.partial(function, "cudnn", **how),
        GRID,
        specs or [SPLIT] * len(arrays),
        *arrays,
        error=2**-5,  # bfloat16, and cuDNN rounds elsewhere than XLA
        instead=functools.partial(function, "xla", **how),
    )


@pytest.mark.sweep
@pytest.mark.parametrize("function", [attend, gradients])
@pytest.mark.parametrize("how", [{}, {"is_causal": True}])
def test_batches_and_heads_are_split(function: Any, how: dict[str, Any]) -> None:
    compiled = check(function, *three(), **how)
    assert not compiled.collectives
    products = 2 if function is attend else 7
    whole = 2 * products * BATCHES * HEADS * QUERIES * KEYS * FEATURES
    assert whole / 8 <= compiled.local_flops < whole / 4


@pytest.mark.sweep
@pytest.mark.parametrize("function", [attend, gradients])
@pytest.mark.parametrize("heads", [4, 1])
def test_a_head_of_keys_that_serves_several(function: Any, heads: int) -> None:
    """Where there is one for all, its gradient is a sum over the devices that have others."""
    specs = [SPLIT] + [SPLIT if heads > 1 else ["x", None, None, None]] * 2
    compiled = check(function, *three(heads), specs=specs)
    summed = (
        2 * (2 * KEYS * FEATURES * 2) * 2 * 3 / 4 if heads == 1 and function is gradients else 0
    )
    assert sent(compiled) <= summed


@pytest.mark.sweep
@pytest.mark.parametrize("batches", [1, BATCHES])
@pytest.mark.parametrize("heads", [1, HEADS])
def test_the_gradient_of_a_bias_for_several_is_a_sum(batches: int, heads: int) -> None:
    bias = values(batches, heads, QUERIES, KEYS)
    spec = ["x" if batches > 1 else None, "y" if heads > 1 else None, None, None]
    compiled = check(gradients, *three(), bias, specs=[SPLIT] * 3 + [spec])
    kinds = {c.kind for c in compiled.collectives}
    assert kinds <= ({"all_reduce"} if 1 in (batches, heads) else set())


def test_lengths_are_split_with_the_batch() -> None:
    def short(implementation: str, q: Any, k: Any, v: Any, lengths: Any) -> Any:
        how = {"query_seq_lengths": lengths, "key_value_seq_lengths": lengths}
        made = attend(implementation, q, k, v, **how)
        return jnp.where(jnp.arange(QUERIES)[:, None, None] < lengths[:, None, None, None], made, 0)

    lengths = jnp.array([3, 10, 1, 7], jnp.int32)
    compiled = check(short, *three(), lengths, specs=[SPLIT] * 3 + [["x"]])
    assert not compiled.collectives
