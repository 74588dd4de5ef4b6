"""Layers of models, split over a model axis."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from benchmarks.against_jax.workload import Workload, array, floats

Tree = Any
TWO_BY_FOUR = {"data": 2, "model": 4}


def norm(x: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5)


def attend(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """Causal attention of [batch, time, heads, size]."""
    scores = jnp.einsum("bthk,bshk->bhts", q, k) / q.shape[-1] ** 0.5
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    return jnp.einsum("bhts,bshk->bthk", jax.nn.softmax(jnp.where(mask, scores, -1e9)), v)


def block(weights: Tree, x: jax.Array) -> jax.Array:
    q, k, v = jnp.einsum("btd,dchk->cbthk", norm(x), weights["qkv"])
    x = x + jnp.einsum("bthk,hkd->btd", attend(q, k, v), weights["out"])
    return x + jax.nn.gelu(norm(x) @ weights["up"]) @ weights["down"]


def block_gradients(weights: Tree, x: jax.Array) -> tuple[Tree, jax.Array]:
    return jax.grad(lambda w, x: jnp.mean(block(w, x) ** 2), argnums=(0, 1))(weights, x)


def fused_attention(weights: Tree, x: jax.Array) -> jax.Array:
    """Query, key and value are thirds of one matrix, whose columns are split."""
    q, k, v = (
        part.reshape(*x.shape[:2], 8, 8) for part in jnp.split(norm(x) @ weights["qkv"], 3, axis=-1)
    )
    return x + attend(q, k, v).reshape(x.shape) @ weights["out"]


def language_loss(table: jax.Array, tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Loss and gradient of a model that is only its embedding, used at both ends."""

    def loss(table: jax.Array) -> jax.Array:
        x = norm(table[tokens[:, :-1]])
        scores = jax.nn.log_softmax(x @ table.T)
        return -jnp.take_along_axis(scores, tokens[:, 1:, None], -1).mean()

    return jax.value_and_grad(loss)(table)


def experts(weights: Tree, x: jax.Array) -> jax.Array:
    """`x` is [groups, tokens, width]; every group sends at most 32 tokens to each expert."""
    gates = jax.nn.softmax(x @ weights["router"])
    chosen = jax.nn.one_hot(jnp.argmax(gates, -1), gates.shape[-1])
    place = (jnp.cumsum(chosen, axis=1) * chosen - 1).max(-1).astype(int)
    dispatch = chosen[..., None] * jax.nn.one_hot(place, 32)[:, :, None]
    sent = jnp.einsum("gtec,gtd->egcd", dispatch, x)
    hidden = jax.nn.gelu(jnp.einsum("egcd,edf->egcf", sent, weights["up"]))
    back = jnp.einsum("egcf,efd->egcd", hidden, weights["down"])
    return x + jnp.einsum("gtec,egcd->gtd", dispatch * gates.max(-1)[..., None, None], back)


def decode(weights: Tree, cache: Tree, x: jax.Array, position: jax.Array) -> tuple[jax.Array, Tree]:
    """One token for each row of [batch, width], with caches of [batch, time, heads, size]."""
    q, k, v = jnp.einsum("bd,dchk->cbhk", norm(x), weights["qkv"])
    update = jax.lax.dynamic_update_slice_in_dim
    keys = update(cache["keys"], k[:, None], position, 1)
    values = update(cache["values"], v[:, None], position, 1)
    scores = jnp.einsum("bhk,bthk->bht", q, keys) / q.shape[-1] ** 0.5
    scores = jnp.where(jnp.arange(keys.shape[1]) <= position, scores, -1e9)
    mixed = jnp.einsum("bht,bthk->bhk", jax.nn.softmax(scores), values)
    return x + jnp.einsum("bhk,hkd->bd", mixed, weights["out"]), {"keys": keys, "values": values}


def sample(logits: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The 8 likeliest words of each row, and their probabilities."""
    likeliest, words = jax.lax.top_k(jax.nn.softmax(logits), 8)
    return words, likeliest


def unet(weights: Tree, images: jax.Array) -> jax.Array:
    """Three levels of [batch, rows, columns, channels]; with 120 rows there are 120, 60 and 30."""

    def convolved(x: jax.Array, name: str) -> jax.Array:
        numbers = ("NHWC", "HWIO", "NHWC")
        found = jax.lax.conv_general_dilated(x, weights[name], (1, 1), "SAME", None, None, numbers)
        return jax.nn.relu(found)

    x, kept = images, []
    for name in ("down0", "down1"):
        x = convolved(x, name)
        kept.append(x)
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = convolved(x, "bottom")
    for name, beside in zip(("up1", "up0"), reversed(kept), strict=True):
        x = convolved(jax.image.resize(x, (*beside.shape[:3], x.shape[3]), "nearest"), name)
        x += beside
    return x


def unet_gradients(weights: Tree, images: jax.Array) -> Tree:
    return jax.grad(lambda w: jnp.mean(unet(w, images) ** 2))(weights)


BLOCK = floats(qkv=(64, 3, 8, 8), out=(8, 8, 64), up=(64, 256), down=(256, 64))
MEGATRON = {
    "qkv": P(None, None, "model"),
    "out": P("model"),
    "up": P(None, "model"),
    "down": P("model"),
}
KERNELS = floats(
    down0=(3, 3, 8, 8),
    down1=(3, 3, 8, 16),
    bottom=(3, 3, 16, 16),
    up1=(3, 3, 16, 16),
    up0=(3, 3, 16, 8),
)
WHOLE_KERNELS = {name: P() for name in KERNELS}
CACHE = floats(keys=(4, 2048, 8, 8), values=(4, 2048, 8, 8))
CACHE_SPECS = {name: P(None, "data", "model") for name in CACHE}

WORKLOADS = {
    "tensor_parallel_block": Workload(
        "transformer block and its gradients, tensor parallel",
        TWO_BY_FOUR,
        block_gradients,
        (BLOCK, array(8, 64, 64)),
        (MEGATRON, P("data")),
        (MEGATRON, P("data")),
    ),
    "fused_qkv": Workload(
        "attention whose query, key and value are thirds of one split matrix",
        TWO_BY_FOUR,
        fused_attention,
        (floats(qkv=(64, 192), out=(64, 64)), array(8, 64, 64)),
        ({"qkv": P(None, "model"), "out": P("model")}, P("data")),
        P("data"),
    ),
    "tied_embedding": Workload(
        "embedding and cross entropy with one vocabulary-split table, and its gradient",
        TWO_BY_FOUR,
        language_loss,
        (array(512, 64), array(8, 33, dtype=np.int32)),
        (P("model"), P("data")),
        (None, P("model")),
    ),
    "experts": Workload(
        "layer of 8 experts, one per device",
        {"expert": 8},
        experts,
        (floats(router=(64, 8), up=(8, 64, 256), down=(8, 256, 64)), array(8, 128, 64)),
        ({"router": P(), "up": P("expert"), "down": P("expert")}, P("expert")),
        P("expert"),
    ),
    "unet": Workload(
        "U-Net and its gradients, images of 120x120 on tiles",
        {"rows": 4, "columns": 2},
        unet_gradients,
        (KERNELS, array(2, 120, 120, 8)),
        (WHOLE_KERNELS, P(None, "rows", "columns")),
        WHOLE_KERNELS,
    ),
    "decode": Workload(
        "decoding a token, cache split over time and heads",
        TWO_BY_FOUR,
        decode,
        (
            floats(qkv=(64, 3, 8, 8), out=(8, 8, 64)),
            CACHE,
            array(4, 64),
            array(dtype=np.int32),
        ),
        ({"qkv": P(None, None, "model"), "out": P("model")}, CACHE_SPECS, P(), P()),
        (P(), CACHE_SPECS),
        (1,),
    ),
    "top_k": Workload(
        "the 8 largest of vocabulary-split logits",
        TWO_BY_FOUR,
        sample,
        (array(32, 4096),),
        (P("data", "model"),),
        (P("data"), P("data")),
    ),
}
