"""Programs that hold one family of operations each, every result named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

FLOATS = ("float32", "bfloat16")
ALL = (*FLOATS, "int32")


@dataclass(frozen=True)
class Family:
    """A function of arrays that returns a dict of results, its shapes and its element types."""

    fn: Callable[..., dict[str, Any]]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...] = ALL


def elementwise(a: Any, b: Any) -> dict[str, Any]:
    """Binary, unary, comparisons, select, clamp."""
    return {
        "add": a + b,
        "subtract": a - b,
        "multiply": a * b,
        "maximum": jnp.maximum(a, b),
        "negate": -a,
        "compare": a > b,
        "select": jnp.where(a > 0, a, b),
        "select_scalar": jnp.where(True, a, b),
        "clamp": lax.clamp(jnp.asarray(-1, a.dtype), a, jnp.asarray(2, a.dtype)),
        "convert": a.astype(jnp.float32) * 0.5,
        "power": lax.integer_pow(a, 2),
    }


def contraction(a: Any, b: Any) -> dict[str, Any]:
    """dot_general: free, contracted and batch dimensions."""
    return {
        "free": jnp.einsum("bij,bjk->bik", a, b),
        "swapped": jnp.einsum("bij,bjk->kib", a, b),
        "two": jnp.einsum("bij,bjk->ik", a, b),
        "then_more": jnp.einsum("bij,bjk->bik", a, b).sum(0) * 2,
    }


def reduction(a: Any) -> dict[str, Any]:
    """reduce: every combiner, several dimensions, several operands, an init value."""
    nonzero = jnp.where(a == 0, jnp.ones_like(a), jnp.sign(a))
    return {
        "sum": a.sum(1),
        "sum_all": a.sum(),
        "max": a.max(0),
        "min": a.min((0, 2)),
        "prod": nonzero.prod(2),
        "any": (a > 2).any(1),
        "all": (a > -3).all(0),
        "argmax": jnp.argmax(a, 1),
        "init": lax.reduce(a, jnp.asarray(3, a.dtype), lax.add, (2,)),
        "mean_removed": a - a.sum(0, keepdims=True),
        "max_of_sums": jnp.maximum(a.sum(0), a.max(0)),
    }


def shape(a: Any) -> dict[str, Any]:
    """broadcast_in_dim, transpose, reverse."""
    return {
        "transpose": jnp.transpose(a, (2, 0, 1)),
        "broadcast": jnp.broadcast_to(a[:, None], (8, 5, 24, 4)),
        "expand": jnp.broadcast_to(a.sum(1, keepdims=True), (8, 24, 4)),
        "reverse": lax.rev(a, (0, 1)),
    }


def reshape(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> dict[str, Any]:
    """Reshapes by digits, each of an operand of its own: of one, all would be one large choice."""
    return {
        "merge": a.reshape(8 * 24, 4),
        "merge_minor": b.reshape(8, 96),
        "split": c.reshape(8, 3, 8, 4),
        "split_major": d.reshape(2, 4, 24, 4),
        "through": e.reshape(8, 2, 12, 4).transpose(1, 0, 2, 3).reshape(16, 48) * 2,
        "flat": f.reshape(-1),
    }


def cutting(a: Any) -> dict[str, Any]:
    """slice, concatenate, pad: the split of a fused projection and its gradient."""
    q, k, v = jnp.split(a, 3, axis=1)
    return {
        "thirds": q * k + v,
        "slice": a[2:6, 3:20, 1:],
        "stride": a[::2, ::3],
        "concatenate": jnp.concatenate([a, a * 2], 0),
        "joined": jnp.concatenate([q, v], 1),
        "pad": jnp.pad(a, ((1, 3), (0, 0), (2, 0)), constant_values=7),
        "pad_inside": lax.pad(a, jnp.asarray(0, a.dtype), ((0, 0, 1), (0, 0, 0), (0, 0, 0))),
        "pad_blocks": jnp.pad(q, ((0, 0), (8, 8), (0, 0))),
    }


def nullary(a: Any) -> dict[str, Any]:
    """Iota and constants, splat and dense, meeting what is split."""
    table = jnp.arange(8 * 24, dtype=a.dtype).reshape(8, 24, 1) % 5
    return {
        "iota": a + lax.broadcasted_iota(a.dtype, a.shape, 1),
        "iota_rows": lax.broadcasted_iota(jnp.int32, (16, 8), 0),
        "constant": a * table,
        "splat": a + jnp.full_like(a, 3),
        "mask": jnp.where(jnp.tril(jnp.ones((8, 24), bool))[:, :, None], a, 0),
    }


def indexing(table: Any, ids: Any) -> dict[str, Any]:
    """Embedding lookup and its gradient; indices below, inside and beyond the table."""
    rows = table[ids]
    updates = jnp.ones((*ids.shape, table.shape[1]), table.dtype)
    return {
        "lookup": rows,
        "clip": jnp.take(table, ids, axis=0, mode="clip"),
        "fill": jnp.take(table, ids, axis=0, mode="fill", fill_value=9),
        "add": jnp.zeros_like(table).at[ids].add(updates),
        "add_to": table.at[ids].add(updates, mode="drop"),
        "max": table.at[ids].max(updates * 2),
        "set": table.at[3].set(1),
        "along": jnp.take_along_axis(table[:4], jnp.abs(ids[:, :1]) % 8, axis=1),
        "bag": rows.sum(1),
    }


def dynamic(a: Any, start: Any) -> dict[str, Any]:
    """dynamic_slice and dynamic_update_slice, also past the end."""
    index = start[0]
    part = lax.dynamic_slice(a, (index, 0, 0), (3, 24, 4))
    return {
        "slice": part,
        "update": lax.dynamic_update_slice(a, part * 2, (index, 0, 0)),
        "row": lax.dynamic_index_in_dim(a, index, 0, keepdims=False),
        "corner": lax.dynamic_slice(a, (index, index, 0), (8, 5, 4)),
    }


def loops(a: Any) -> dict[str, Any]:
    """while: scan over a split stack, counted and data-dependent loops, a partial carry; case."""

    def body(carry: Any, row: Any) -> tuple[Any, Any]:
        return carry + row, (carry * row).sum()

    total, sums = lax.scan(body, jnp.zeros(a.shape[1:], a.dtype), a)
    counted = lax.fori_loop(0, 3, lambda i, c: c * 2 - a, a)
    zero = jnp.zeros((12, 12), a.dtype)
    product = lax.fori_loop(0, 2, lambda i, c: c + jnp.einsum("bij,bkj->ik", a, a), zero)
    searched = lax.while_loop(lambda c: c.sum() < 40, lambda c: c + 1, jnp.abs(a[0]))
    branch = lax.cond(a.sum() > 0, lambda v: v * 3, lambda v: v.max(0, keepdims=True) - v, a)
    return {
        "scan": total,
        "scan_out": sums,
        "counted": counted,
        "partial_carry": product,
        "searched": searched,
        "branch": branch,
        "switch": lax.switch(jnp.abs(a[0, 0, 0]).astype(jnp.int32) % 3, _BRANCHES, a),
        "call": jax.jit(lambda v: v - 1)(a) + jax.jit(lambda v: v - 1)(-a),
        "barrier": lax.optimization_barrier((a * 2, a.sum(1)))[1],
    }


_BRANCHES = [lambda v: v, lambda v: v + 1, lambda v: -v]


def rows(a: Any) -> dict[str, Any]:
    """Sorts, top_k, running sums, bits: whole along one dimension, split along the others."""
    bits = lax.bitcast_convert_type(a, jnp.int16 if a.dtype == jnp.bfloat16 else jnp.int32)
    return {
        "sort": jnp.sort(a, axis=1),
        "top_k": lax.top_k(a.transpose(0, 2, 1), 3)[0],
        "cumsum": jnp.cumsum(a, axis=1),
        "cummax": lax.cummax(a, axis=0),
        "bits": bits,
    }


def searches(a: Any) -> dict[str, Any]:
    """approx_max_k and approx_min_k, whose custom call names a function, and their gradients."""

    def best(v: Any) -> Any:
        return lax.approx_max_k(v, 3, reduction_dimension=1)[0]

    largest, at = lax.approx_max_k(a, 3, reduction_dimension=1)
    smallest, some = lax.approx_min_k(a, 2, aggregate_to_topk=False)
    in_loop = lax.fori_loop(0, 2, lambda i, c: c + best(c).sum(1, keepdims=True), a)
    return {
        "largest": largest,
        "at": at,
        "smallest": smallest.sum(2),
        "some": some.max(2),
        "gradient": jax.grad(lambda v: jnp.square(best(v)).sum())(a),
        "in_loop": in_loop,
    }


def gradients(a: Any, b: Any) -> dict[str, Any]:
    """Softmax, normalisation, and the gradient of a small network through remat and vmap."""

    def loss(a: Any, b: Any) -> Any:
        hidden = jax.checkpoint(lambda v: jnp.tanh(v @ b * 0.1))(a)
        scaled = hidden / jnp.sqrt(jnp.square(hidden).mean(-1, keepdims=True) + 1)
        return jnp.square(jax.vmap(jax.nn.softmax)(scaled)).sum()

    da, db = jax.grad(loss, (0, 1))(a, b)
    return {"softmax": jax.nn.softmax(a, 0), "loss": loss(a, b), "da": da, "db": db}


FAMILIES: dict[str, Family] = {
    "elementwise": Family(elementwise, ((8, 24), (8, 24))),
    "contraction": Family(contraction, ((8, 12, 4), (8, 4, 16))),
    "reduction": Family(reduction, ((8, 24, 4),)),
    "shape": Family(shape, ((8, 24, 4),)),
    "reshape": Family(reshape, ((8, 24, 4),) * 6),
    "cutting": Family(cutting, ((8, 24, 4),)),
    "nullary": Family(nullary, ((8, 24, 4),)),
    "indexing": Family(indexing, ((16, 8), (4, 6)), ("float32", "int32")),
    "dynamic": Family(dynamic, ((8, 24, 4), (1,)), ("float32", "int32")),
    "loops": Family(loops, ((8, 12, 4),), ("float32", "int32")),
    "rows": Family(rows, ((8, 24, 4),)),
    "searches": Family(searches, ((8, 24, 4),), FLOATS),
    "gradients": Family(gradients, ((8, 16), (16, 24)), ("float32",)),
}
