"""What JAX calls on GPUs, planned for them and run on CPUs by what does the same there."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as scipy
import numpy as np
import pytest
from jax import lax

from dtensor.compiler.api import jit
from dtensor.compiler.stages import Compiled
from dtensor.dialect.layout import Layout
from tests.py.passes.on_mesh import GRID, LINE
from tests.py.twins import run_for

U = None
GPU = "gpu:h100:8"


def values(*shape: int) -> Any:
    return jnp.asarray(np.random.default_rng(0).normal(size=shape), jnp.float32)


def records(compiled: Compiled) -> set[str]:
    return {record["kind"] for record in compiled.ledger["records"]}


def tridiagonal(bands: Any, right: Any) -> Any:
    return lax.linalg.tridiagonal_solve(
        bands[..., 0, :], bands[..., 1, :] + 8, bands[..., 2, :], right
    )


FORMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], list[list[Any]]]] = {
    "QR with pivots": (
        lambda a: scipy.qr(a, pivoting=True),
        (values(8, 6, 4),),
        [[("x", "y"), U, U]],
    ),
    "tridiagonal systems": (
        tridiagonal,
        (values(8, 3, 7), values(8, 7, 12)),
        [["x", U, U], ["x", U, "y"]],
    ),
    "right sides of one": (tridiagonal, (values(3, 7), values(7, 16)), [[U, U], [U, "y"]]),
    "solve": (
        lambda a, b: jnp.linalg.solve(a, b),
        (values(8, 5, 5), values(8, 5, 12)),
        [["x", U, U], ["x", U, "y"]],
    ),
    "symmetric products": (
        lambda a, c: lax.linalg.symmetric_product(a, c, alpha=2.0, beta=3.0),
        (values(8, 5, 4), values(8, 5, 5)),
        [["y", U, U], ["y", U, U]],
    ),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", FORMS)
def test_calls_of_a_batch_are_made_for_each_part_of_it(name: str) -> None:
    function, arguments, specs = FORMS[name]
    compiled = run_for(GPU, function, GRID, specs, *arguments, error=1e-5)
    assert not compiled.collectives
    assert "fallback" not in records(compiled)


def test_gradients_of_tridiagonal_systems_send_nothing() -> None:
    def gradients(bands: Any, right: Any) -> Any:
        return jax.grad(lambda *both: jnp.sin(tridiagonal(*both)).sum(), argnums=(0, 1))(
            bands, right
        )

    arguments, specs = (values(8, 3, 7), values(8, 7, 4)), [["y", U, U], ["y", U, U]]
    assert not run_for(GPU, gradients, GRID, specs, *arguments, error=1e-5).collectives


def test_random_numbers_of_the_kernel_are_made_where_they_are_read() -> None:
    def noise(words: Any, x: Any) -> Any:
        key = jax.random.wrap_key_data(words)
        return jax.random.bits(key, x.shape) ^ lax.bitcast_convert_type(x, jnp.uint32)

    with jax.enable_x64(False):
        jax.config.update("jax_threefry_gpu_kernel_lowering", True)
        try:
            specs: list[list[Any]] = [[U], ["x", "y"]]
            words = jnp.array([3, 5], jnp.uint32)
            compiled = run_for(GPU, noise, GRID, specs, words, values(8, 12))
        finally:
            jax.config.update("jax_threefry_gpu_kernel_lowering", False)
    assert not compiled.collectives
    assert "fallback" not in records(compiled)


@pytest.mark.parametrize(
    ("left", "right"), [(["x", "y", U], ["x", U, U]), (["x", U, "y"], ["x", U, "y"])]
)
def test_products_of_scaled_blocks_are_split_in_all_dimensions(
    left: list[Any], right: list[Any]
) -> None:
    a, b = (values(2, rows, 256).astype(jnp.float8_e4m3fn) for rows in (8, 12))
    scales = [
        jnp.exp2(jnp.round(values(2, rows, 8))).astype(jnp.float8_e8m0fnu) for rows in (8, 12)
    ]

    def product(a: Any, b: Any, c: Any, d: Any) -> Any:
        return jax.nn.scaled_matmul(a, b, c, d, preferred_element_type=jnp.float32)

    def written_out(a: Any, b: Any, *scales: Any) -> Any:
        sides = zip((a, b), scales, strict=True)
        wide = [x.astype(jnp.float32) * jnp.repeat(s.astype(jnp.float32), 32, 2) for x, s in sides]
        return jnp.matmul(wide[0], wide[1].mT, precision="highest")

    specs = [left, right, left, right]
    compiled = run_for(GPU, product, GRID, specs, a, b, *scales, error=1e-5, instead=written_out)
    assert "fallback" not in records(compiled)
    assert bool(compiled.collectives) == (left[2] is not None)
    assert compiled.local_flops < 2 * 2 * 8 * 12 * 256 / 4


def test_a_call_that_takes_split_rows_as_a_whole_says_so() -> None:
    bands, right = values(3, 64), values(64, 4)
    layouts = Layout([U, "x"], LINE), Layout(["x", U], LINE)
    said = jit(tridiagonal, mesh=LINE, in_layouts=layouts).lower(bands, right).compile()
    notes = [r for r in said.ledger["records"] if r["kind"] == "fallback"]
    (text,) = [record["text"] for record in notes]
    assert re.search(
        r"@lapack_sgtsv_ffi takes whole what layouts split: 1568 bytes", text
    )  # 672 of them the bands, ahead


def test_a_call_that_takes_a_batch_apart_says_nothing() -> None:
    layouts = Layout(["x", U, U], LINE), Layout(["x", U, U], LINE)
    step = jit(tridiagonal, mesh=LINE, in_layouts=layouts)
    assert "fallback" not in records(step.lower(values(8, 3, 7), values(8, 7, 4)).compile())


@pytest.mark.parametrize(
    ("function", "call"),
    [
        (jnp.linalg.cholesky, "lapack_spotrf_ffi"),
        (lambda a: jnp.linalg.eigh(jnp.exp(a))[0], "lapack_ssyevd_ffi"),
        (lambda a: jnp.linalg.svd(jnp.sin(a.T).reshape(64, 64))[1], "lapack_sgesdd_ffi"),
    ],
    ids=["cholesky", "eigh", "svd"],
)
def test_what_is_put_together_ahead_of_a_call_is_laid_to_it(
    function: Callable[..., Any], call: str
) -> None:
    lowered = jit(function, mesh=LINE, in_layouts=Layout(["x", U], LINE)).lower(values(64, 64))
    notes = dict[str, list[Any]]()
    for record in lowered.ledger["records"]:
        notes.setdefault(record["kind"], []).append(record)
    (fallback,), moved = notes["fallback"], notes["relayout"][0]
    assert f"@{call} takes whole what layouts split: {moved['bytes']:.0f} bytes" in fallback["text"]
    assert fallback["parents"] == [moved["id"]]
    assert re.search(rf"needs \[{{}}, {{}}\](?: for custom_call @{call})?$", moved["text"])


def test_what_is_put_together_for_several_is_laid_to_none() -> None:
    def both(a: Any) -> Any:
        turned = jnp.sin(a.T)
        return lax.linalg.eigh(turned, symmetrize_input=False)[1], jnp.linalg.svd(turned)[1]

    lowered = jit(both, mesh=LINE, in_layouts=Layout(["x", U], LINE)).lower(values(64, 64))
    texts = [r["text"] for r in lowered.ledger["records"] if r["kind"] == "relayout"]
    assert texts
    assert not any(" for " in text for text in texts)
