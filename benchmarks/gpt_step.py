"""A GPT training step, unrolled, as the programs of the compile-speed benchmark."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

WIDTH, HEADS, VOCABULARY, LENGTH = 256, 8, 1024, 64
SPECS: dict[str, list[Any]] = {
    "embedding": ["model", None],
    "positions": [None, None],
    "gain": [None],
    "qkv": [None, None, "model", None],
    "out": ["model", None, None],
    "up": [None, "model"],
    "up_bias": ["model"],
    "down": ["model", None],
}


def parameters(layers: int) -> dict[str, Any]:
    """Shapes of the parameters, as a tree of `jax.ShapeDtypeStruct`."""

    def array(*shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, jnp.float32)

    layer = {
        "gain": array(WIDTH),
        "qkv": array(WIDTH, 3, HEADS, WIDTH // HEADS),
        "out": array(HEADS, WIDTH // HEADS, WIDTH),
        "up": array(WIDTH, 4 * WIDTH),
        "up_bias": array(4 * WIDTH),
        "down": array(4 * WIDTH, WIDTH),
    }
    return {
        "embedding": array(VOCABULARY, WIDTH),
        "positions": array(LENGTH, WIDTH),
        "layers": [dict(layer) for _ in range(layers)],
    }


def _norm(x: jax.Array, gain: jax.Array) -> jax.Array:
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * gain


def _block(layer: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    q, k, v = jnp.einsum("btd,dchk->cbthk", _norm(x, layer["gain"]), layer["qkv"])
    scores = jnp.einsum("bthk,bshk->bhts", q, k) / q.shape[-1] ** 0.5
    mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), -1)
    x = x + jnp.einsum("bhts,bshk,hkd->btd", weights, v, layer["out"])
    hidden = jax.nn.gelu(_norm(x, layer["gain"]) @ layer["up"] + layer["up_bias"])
    return x + hidden @ layer["down"]


def loss(params: dict[str, Any], tokens: jax.Array, targets: jax.Array) -> jax.Array:
    """Mean cross-entropy of the next token."""
    x = params["embedding"][tokens] + params["positions"]
    for layer in params["layers"]:
        x = _block(layer, x)
    logits = x @ params["embedding"].T
    chosen = jnp.take_along_axis(logits, targets[..., None], -1)[..., 0]
    return (jax.nn.logsumexp(logits, -1) - chosen).mean()


def step(
    params: Any, first: Any, second: Any, count: jax.Array, tokens: jax.Array, targets: jax.Array
) -> tuple[Any, Any, Any, jax.Array, jax.Array]:
    """One step of Adam."""
    value, gradients = jax.value_and_grad(loss)(params, tokens, targets)
    count = count + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = jax.tree.map(lambda v, g: 0.95 * v + 0.05 * g * g, second, gradients)

    def update(p: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
        scaled = m / (1 - 0.9**count) / (jnp.sqrt(v / (1 - 0.95**count)) + 1e-5)
        return p - 1e-3 * (scaled + 0.01 * p)

    return jax.tree.map(update, params, first, second), first, second, count, value
