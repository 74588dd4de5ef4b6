"""Programs that were found wrong once, by random search; each with its name."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dtensor

MESH = dtensor.create_mesh([("x", 3), ("y", 2)], devices=list(range(6)))


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.asarray(np.random.default_rng(3).normal(size=shape)).astype(np.float32)


def test_verify_looks_into_a_loop_whose_sort_compares_with_a_constant_from_outside() -> None:
    rows = dtensor.Layout([("y", "x")], MESH)
    report = dtensor.verify(
        lambda a: jax.scipy.stats.rankdata(a, axis=0), numbers(12), in_layouts=rows
    )
    assert report.ok, str(report)


def test_verify_looks_into_a_loop_that_carries_parts_of_a_sum() -> None:
    def total(t: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda i, c: jnp.sin(c @ t.mT) @ t * 0.1, t).sum()

    columns = dtensor.Layout([None, ("y", "x")], MESH)
    report = dtensor.verify(jax.grad(total), numbers(12, 24), in_layouts=columns)
    assert report.ok, str(report)


def test_verify_rounds_halves_where_a_fusion_without_optimisation_would_not() -> None:
    def both(p: Any, q: Any) -> Any:
        return p[0] * q[0], q[0] * p[1] + q[1]

    def scan(a: Any) -> Any:
        return jax.lax.associative_scan(both, (jnp.tanh(a), a), axis=0)[1]

    rows = dtensor.Layout([None, None], MESH)
    report = dtensor.verify(scan, numbers(8, 8).astype(np.float16), in_layouts=rows)
    assert report.ok, str(report)


def test_verify_leaves_out_what_a_library_was_not_asked_for() -> None:
    layouts = (dtensor.Layout([None, None], MESH),)
    for _ in range(3):  # what memory holds differs
        report = dtensor.verify(
            lambda a: jnp.linalg.svd(a, compute_uv=False), numbers(12, 3), in_layouts=layouts
        )
        assert report.ok, str(report)
