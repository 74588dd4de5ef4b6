"""Windows that scatter by other means than sums, of sizes that meshes do not divide."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dtensor

MESH = dtensor.create_mesh([("x", 2), ("y", 4)])
ALONE = dtensor.create_mesh([("z", 1)], devices=[0])

TEXT = """
func.func @main(%a: tensor<9x13xf32>, %s: tensor<5x5xf32>) -> tensor<9x13xf32> {
  %init = stablehlo.constant dense<-1.5> : tensor<f32>
  %0 = "stablehlo.select_and_scatter"(%a, %s, %init) <{window_dimensions = array<i64: 3, 4>,
      window_strides = array<i64: 2, 3>, padding = dense<[[0, 2], [3, 0]]> : tensor<2x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }, {
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.SCATTER %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<9x13xf32>, tensor<5x5xf32>, tensor<f32>) -> tensor<9x13xf32>
  return %0 : tensor<9x13xf32>
}
"""


@pytest.mark.sweep
@pytest.mark.parametrize("scatter", ["add", "subtract", "maximum", "minimum", "multiply"])
def test_windows_beyond_the_end_scatter_nothing(scatter: str) -> None:
    rng = np.random.default_rng(0)
    a, s = (rng.normal(size=shape).astype(np.float32) for shape in ((9, 13), (5, 5)))
    text = TEXT.replace("SCATTER", scatter)
    (expected,) = dtensor.compile_mlir(text, mesh=ALONE)(a, s)
    for specs in [(None, "x"), ("x", "y"), (None, ("x", "y")), ("y", None)]:
        layouts = [None, dtensor.Layout(list(specs), MESH)]
        (found,) = dtensor.compile_mlir(text, mesh=MESH, in_layouts=layouts)(a, s)
        np.testing.assert_allclose(found.to_jax(), expected.to_jax(), rtol=1e-6)


def test_windows_that_leave_out_the_end_of_what_was_padded() -> None:
    # 7 places over 5 devices: what a pool of stride 2 leaves out is longer than what it pads.
    mesh = dtensor.create_mesh([("x", 5)], devices=jax.devices()[:5])

    def largest(x: jax.Array) -> Any:
        padded = jnp.pad(x, 1, constant_values=1)
        return jax.lax.reduce_window(padded, -np.inf, jax.lax.max, (1,), (2,), [(1, 0)])

    gradient = jax.grad(lambda x: jnp.sum(largest(x) ** 2))
    x = np.arange(7, dtype=np.float32)
    step = dtensor.jit(gradient, in_layouts=dtensor.Layout(["x"], mesh))
    np.testing.assert_array_equal(step(x).to_jax(), gradient(x))


EQUALS = """
func.func @main(%a: tensor<2x4x6xf32>, %s: tensor<1x3x5xf32>) -> tensor<2x4x6xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.select_and_scatter"(%a, %s, %zero) <{window_dimensions = array<i64: 2, 2, 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }, {
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<2x4x6xf32>, tensor<1x3x5xf32>, tensor<f32>) -> tensor<2x4x6xf32>
  return %0 : tensor<2x4x6xf32>
}
"""


@pytest.mark.parametrize("dims", [(None, None, ("x", "y")), (None, "x", "y"), ("y", None, "x")])
def test_the_first_of_equal_elements_is_selected(dims: Any) -> None:
    # Windows that are added behind the end must not change what the others select.
    mesh = dtensor.create_mesh([("x", 3), ("y", 2)], devices=jax.devices()[:6])
    rng = np.random.default_rng(0)
    a, s = (rng.integers(0, 4, shape).astype(np.float32) for shape in ((2, 4, 6), (1, 3, 5)))
    expected = np.zeros_like(a)
    for i, j, k in np.ndindex(s.shape):
        window = a[i : i + 2, j : j + 2, k : k + 2]
        first = np.unravel_index(window.argmax(), window.shape)
        expected[i + first[0], j + first[1], k + first[2]] += s[i, j, k]
    layouts = [dtensor.Layout(list(each), mesh) for each in (dims, (None, None, None))]
    whole = [dtensor.Layout([None, None, None], mesh)]
    program = dtensor.compile_mlir(EQUALS, mesh=mesh, in_layouts=layouts, out_layouts=whole)
    np.testing.assert_array_equal(program(a, s)[0].to_jax(), expected)
