"""Custom calls that XLA knows by name, and those that name functions, over layouts of a mesh."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dtensor
from tests.py.line.layouts import all_layouts, mesh

BATCH = (4, 8)
EPSILON = 2.0**-23

# jax has no name for them on this machine: they are what it writes for TPUs.
CALLS = {
    "Eigh": ('backend_config = "1,1,100,1e-6"', ["4x8x3x3xf32", "4x8x3xf32"]),
    "Qr": ('backend_config = ""', ["4x8x3x3xf32", "4x8x3xf32"]),
    "mhlo.topk": (
        "mhlo.attributes = {k = 2 : i64, largest = true}, mhlo.version = 1 : i64",
        ["4x8x3x2xf32", "4x8x3x2xi32"],
    ),
}


def module(target: str) -> str:
    """One call of `target` on matrices."""
    attributes, types = CALLS[target]
    results = ", ".join(f"tensor<{type_}>" for type_ in types)
    return f"""
    func.func @main(%a: tensor<4x8x3x3xf32>) -> ({results}) {{
      %b:2 = stablehlo.custom_call @{target}(%a) {{{attributes}}}
          : (tensor<4x8x3x3xf32>) -> ({results})
      return %b#0, %b#1 : {results}
    }}"""


def matrices() -> np.ndarray[Any, Any]:
    """Symmetric ones, of eigenvalues that are apart."""
    values = np.random.default_rng(7).normal(size=(*BATCH, 3, 3)).astype(np.float32)
    return np.asarray(values + values.swapaxes(2, 3) + np.diag([0, 4, 8]).astype(np.float32))


@pytest.mark.sweep
@pytest.mark.parametrize("target", CALLS)
def test_each_matrix_of_a_batch_is_by_itself(target: str) -> None:
    want = dtensor.compile_mlir(module(target), mesh=dtensor.create_mesh([("one", 1)]))(matrices())
    for layout in all_layouts(matrices().shape):
        compiled = dtensor.compile_mlir(module(target), in_layouts=layout)
        assert not compiled.collectives, layout.short()
        for got, expected in zip(compiled(matrices()), want, strict=True):
            assert got.layout.sharding_specs[:2] == layout.sharding_specs[:2]
            values = np.asarray(expected.to_jax())
            # Sweeps of Eigh end when the whole batch of a device has converged; jax 0.12 rounds Qr
            # of one matrix and of several differently, on one device too.
            near = 16 * EPSILON * np.abs(values).max() if target in ("Eigh", "Qr") else 0
            np.testing.assert_allclose(
                np.asarray(got.to_jax()), values, 0, near, err_msg=layout.short()
            )


def called_text(function: str, visibility: str) -> str:
    """A module whose custom call names `function`, another that is called, and an entry `@step`."""
    return f"""
    func.func {visibility} @{function}(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>,
        %j: tensor<i32>) -> tensor<i1> {{
      %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      return %0 : tensor<i1>
    }}
    func.func private @twice(%a: tensor<8x16xf32>) -> tensor<8x16xf32> {{
      %0 = stablehlo.add %a, %a : tensor<8x16xf32>
      return %0 : tensor<8x16xf32>
    }}
    func.func @step(%a: tensor<8x16xf32>) -> tensor<8x2xf32> {{
      %i = stablehlo.iota dim = 1 : tensor<8x16xi32>
      %f = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %n = stablehlo.constant dense<-1> : tensor<i32>
      %b = call @twice(%a) : (tensor<8x16xf32>) -> tensor<8x16xf32>
      %c:2 = stablehlo.custom_call @ApproxTopK(%b, %i, %f, %n) {{
        called_computations = [@{function}], mhlo.backend_config = {{aggregate_to_topk = true,
        is_fallback = true, recall_target = 0.9 : f32, reduction_dim = 1 : i64,
        reduction_input_size_override = -1 : i64, top_k = 2 : i64}}}} : (tensor<8x16xf32>,
        tensor<8x16xi32>, tensor<f32>, tensor<i32>) -> (tensor<8x2xf32>, tensor<8x2xi32>)
      return %c#0 : tensor<8x2xf32>
    }}"""


@pytest.mark.sweep
@pytest.mark.parametrize("visibility", ["", "private"])
@pytest.mark.parametrize("function", ["greater", "dtensor_main"])  # jax gives the second name too
def test_a_module_keeps_the_function_that_a_call_names(function: str, visibility: str) -> None:
    a = np.random.default_rng(3).normal(size=(8, 16)).astype(np.float32)
    for layout in all_layouts(a.shape):
        compiled = dtensor.compile_mlir(called_text(function, visibility), in_layouts=layout)
        (got,) = compiled(a)
        want = -np.sort(-2 * a, axis=1)[:, :2]
        np.testing.assert_array_equal(np.asarray(got.to_jax()), want, layout.short())


def test_two_programs_with_functions_of_one_name_in_one_jit() -> None:
    layout = dtensor.Layout([("x", "y"), dtensor.UNSHARDED], mesh())
    a = np.random.default_rng(4).normal(size=(8, 16)).astype(np.float32)

    def both(v: Any) -> Any:
        return lax.approx_max_k(v, 2)[0], lax.approx_max_k(-v, 3)[0], lax.approx_min_k(v, 2)[0]

    got = dtensor.jit(both, in_layouts=layout)(a)
    for ours, plain in zip(got, jax.jit(both)(jnp.asarray(a)), strict=True):
        assert ours.layout == layout
        np.testing.assert_array_equal(np.asarray(ours.to_jax()), np.asarray(plain))
