"""A few places of an argsort, and gradients of medians, on 8 devices against one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.compiler.mlir_frontend import compile_mlir
from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.client import create_mesh
from tests.py.passes.on_mesh import GRID, LINE, kinds, run, sent

THREE = create_mesh([("x", 3), ("y", 2)])
FEW = 1000  # bytes; the columns are 1608 numbers, which were gathered


def integers(*shape: int) -> Any:
    """Each of a few, many times; their keys have 8 bits."""
    return np.random.default_rng(len(shape)).integers(0, 9, shape).astype(np.uint8)


def awkward(size: int) -> Any:
    """Many equal numbers, zeros of both signs, infinities and NaN."""
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, size).astype(np.float32)
    x[rng.integers(0, size, size // 3)] = -0.0
    x[rng.integers(0, size, 4)] = [np.nan, -np.nan, np.inf, -np.inf]
    return jnp.asarray(x, jnp.bfloat16)


def few(x: Any) -> Any:
    order = jnp.argsort(x)
    return order[:3], order[-2:], order[17], order[len(x) // 2]


@pytest.mark.sweep
@pytest.mark.parametrize(("mesh", "axes"), [(LINE, "x"), (GRID, ("y", "x")), (THREE, "y")])
@pytest.mark.parametrize("size", [1608, 203])
def test_few_places_are_counted(mesh: Mesh, axes: Any, size: int) -> None:
    compiled = run(few, mesh, [[axes]], integers(size))
    assert sent(compiled) < FEW or size < FEW


def test_a_slice_whose_place_is_a_number_reads_few() -> None:
    """Kept within the array, as one device does."""

    def sliced(x: Any) -> Any:
        order = jnp.argsort(x)
        return [lax.dynamic_slice(order, (np.int32(at),), (2,)) for at in (3, 5000)]

    assert sent(run(sliced, LINE, [["x"]], integers(1608))) < FEW


def test_equal_elements_may_be_in_any_order() -> None:
    """As jax 0.12 sorts for quantiles."""

    def least(x: Any) -> Any:
        return jnp.argsort(x, stable=False)[:3]

    numbers = np.random.default_rng(3).permutation(1608).astype(np.float32)
    assert sent(run(least, LINE, [["x"]], numbers)) < FEW


def test_places_of_equal_numbers_are_in_order() -> None:
    assert "all_to_all" not in kinds(run(few, LINE, [["x"]], awkward(1608)))


def test_places_that_are_all_read_are_sorted() -> None:
    def every(x: Any) -> Any:
        order = jnp.argsort(x)
        return order, order[:3]

    assert "all_to_all" in kinds(run(every, LINE, [["x"]], integers(4608).astype(np.float32)))


def test_places_of_rows_are_their_own() -> None:
    def rows(x: Any) -> Any:
        return jnp.argsort(x, axis=0)[4:6], jnp.argsort(-x.T, axis=1)[:, :2]

    assert sent(run(rows, LINE, [["x", UNSHARDED]], integers(1608, 3).astype(np.int8))) < 3 * FEW


def median(x: Any) -> Any:
    return jnp.median(x) * 3


def quantiles(x: Any) -> Any:
    return jnp.quantile(x, 0.3) - jnp.quantile(x, 0.9) ** 2


def middle(x: Any) -> Any:
    return jnp.sum(jnp.sort(x)[5:8] * jnp.array([1, -2, 3], x.dtype))


@pytest.mark.sweep
@pytest.mark.parametrize("form", [median, quantiles, middle])
def test_gradients_at_a_few_ranks_are_sent(form: Any) -> None:
    compiled = run(jax.grad(form), LINE, [["x"]], awkward(1608))
    assert sent(compiled) < FEW
    assert "all_to_all" not in kinds(compiled)


def test_gradients_of_medians_of_columns_stay_there() -> None:
    def loss(x: Any) -> Any:
        return jnp.sum(jnp.median(x, 0) ** 2)

    x = np.random.default_rng(1).normal(size=(1608, 3)).astype(np.float32)
    compiled = run(jax.grad(loss), GRID, [["y", UNSHARDED]], jnp.asarray(x, jnp.bfloat16))
    assert sent(compiled) < FEW


def test_a_zero_gradient_has_its_sign() -> None:
    def loss(x: Any) -> Any:
        return jnp.median(x) * jnp.bfloat16(-0.0)

    def signs(x: Any) -> Any:
        return jnp.signbit(jax.grad(loss)(x))

    run(signs, LINE, [["x"]], awkward(1608))


PART_OF_A_ROW = """
func.func @main(%x: tensor<64x4xf32>, %part: tensor<3xf32>) -> (tensor<64x4xf32>, tensor<1x4xf32>) {
  %i = stablehlo.iota dim = 0 : tensor<64x4xi32>
  %up:2 = "stablehlo.sort"(%x, %i) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
    %less = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  }) : (tensor<64x4xf32>, tensor<64x4xi32>) -> (tensor<64x4xf32>, tensor<64x4xi32>)
  %zero = stablehlo.constant dense<0.0> : tensor<64x4xf32>
  %five = stablehlo.constant dense<5> : tensor<1xi32>
  %row = "stablehlo.scatter"(%zero, %five, %part) <{scatter_dimension_numbers =
    #stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 0>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %sum = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %sum : tensor<f32>
  }) : (tensor<64x4xf32>, tensor<1xi32>, tensor<3xf32>) -> tensor<64x4xf32>
  %places = stablehlo.reshape %up#1 : (tensor<64x4xi32>) -> tensor<64x4x1xi32>
  %back = "stablehlo.scatter"(%zero, %places, %row) <{scatter_dimension_numbers =
    #stablehlo.scatter<inserted_window_dims = [0], input_batching_dims = [1],
      scatter_indices_batching_dims = [1], scatter_dims_to_operand_dims = [0],
      index_vector_dim = 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %sum = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %sum : tensor<f32>
  }) : (tensor<64x4xf32>, tensor<64x4x1xi32>, tensor<64x4xf32>) -> tensor<64x4xf32>
  %fifth = stablehlo.slice %up#0 [5:6, 0:4] : (tensor<64x4xf32>) -> tensor<1x4xf32>
  return %back, %fifth : tensor<64x4xf32>, tensor<1x4xf32>
}
"""


def test_a_part_of_a_row_is_written_to_places() -> None:
    rng = np.random.default_rng(2)
    x, part = (rng.normal(size=shape).astype(np.float32) for shape in ((64, 4), 3))
    layouts = [Layout(["x", UNSHARDED], LINE), Layout([UNSHARDED], LINE)]
    found, _ = compile_mlir(PART_OF_A_ROW, mesh=LINE, in_layouts=layouts)(x, part)
    expected = np.zeros_like(x)
    expected[np.argsort(x, 0)[5, :3], range(3)] = part
    np.testing.assert_array_equal(found.to_jax(), expected)
