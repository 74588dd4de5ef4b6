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


def test_places_of_mapped_rows() -> None:
    compiled = run(jax.vmap(few), LINE, [[UNSHARDED, "x"]], integers(3, 1608))
    assert sent(compiled) < 3 * FEW


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


QUARTERS = np.array([0.2, 0.5, 0.9], np.float32)


def several(x: Any) -> Any:
    return jnp.quantile(x, QUARTERS)


def nearest(x: Any) -> Any:
    return jnp.percentile(x, np.array([5.0, 95.0]), method="nearest")


def equal_quantiles(x: Any) -> Any:
    return jnp.quantile(x, np.array([0.5, 0.5]))


def known_numbers(x: Any) -> Any:
    return jnp.nanquantile(x, QUARTERS)


def named(x: Any) -> Any:
    return jnp.sort(x)[np.array([3, 100, 3])]


def computed(x: Any) -> Any:
    return jnp.sort(x)[jnp.sum(x > 0)]


def beyond_an_end(x: Any) -> Any:
    places = jnp.sum(x > 0) + np.array([0, 5, 9000])
    known = jnp.sort(x).at[np.array([7, 5000])].get(mode="fill", fill_value=7.0)
    return jnp.sort(x).at[places].get(mode="fill", fill_value=7.0), known


def deviation(x: Any) -> Any:
    return jnp.median(jnp.abs(x - jnp.median(x)))


def outer(x: Any) -> Any:
    return jnp.clip(x, *jnp.quantile(x, QUARTERS[::2]))


def squared(form: Any) -> Any:
    """The gradient of the sum of squares of all that a form gives."""
    return jax.grad(lambda x: sum(jnp.sum(each**2) for each in jax.tree.leaves(form(x))))


VECTORS = [several, nearest, equal_quantiles, known_numbers, named, computed, beyond_an_end]


@pytest.mark.sweep
@pytest.mark.parametrize("form", [*VECTORS, deviation, outer])
@pytest.mark.parametrize(
    ("mesh", "axes", "size"), [(LINE, "x", 1608), (GRID, ("y", "x"), 1603), (THREE, "y", 1605)]
)
def test_gradients_at_several_ranks_are_sent(form: Any, mesh: Mesh, axes: Any, size: int) -> None:
    x = np.random.default_rng(4).integers(-90, 90, size).astype(np.float32)
    if form is known_numbers:
        x[::7] = np.nan
    compiled = run(squared(form), mesh, [[axes]], x, error=1e-6)  # a mix of two places
    assert sent(compiled) < 2 * FEW
    assert "all_to_all" not in kinds(compiled)


@pytest.mark.parametrize("form", [several, equal_quantiles, nearest])
def test_gradients_of_narrow_numbers(form: Any) -> None:
    assert sent(run(squared(form), LINE, [["x"]], awkward(1608), error=1e-2)) < FEW


def columns(x: Any) -> Any:
    return jnp.quantile(x, QUARTERS, axis=0)


def lower_columns(x: Any) -> Any:
    return jnp.quantile(x, QUARTERS, axis=0, method="lower")


def named_columns(x: Any) -> Any:
    return jnp.sort(x, 0)[np.array([3, 700])]


def rows(x: Any) -> Any:
    return jnp.sort(x.T, 1)[:, np.array([3, 700])], jnp.quantile(x.T, 0.3, axis=1)


def known_columns(x: Any) -> Any:
    return jnp.nanquantile(x, QUARTERS[:2], axis=0), jnp.nanmedian(x.T, 1)


@pytest.mark.sweep
@pytest.mark.parametrize("form", [columns, lower_columns, named_columns, rows, known_columns])
@pytest.mark.parametrize(
    ("mesh", "specs"), [(LINE, ["x", UNSHARDED]), (GRID, ["y", "x"]), (THREE, [("x", "y"), None])]
)
def test_gradients_at_ranks_of_columns(form: Any, mesh: Mesh, specs: list[Any]) -> None:
    x = np.random.default_rng(5).normal(size=(1440, 4)).astype(np.float32)
    if form is known_columns:
        x[::7, 1] = x[:1000, 2] = np.nan
    specs = [UNSHARDED if each is None else each for each in specs]
    compiled = run(squared(form), mesh, [specs], x, error=1e-6)
    assert sent(compiled) < x.size * 4 * 7 / 8 / 2
    assert "all_to_all" not in kinds(compiled)


def test_many_ranks_are_sorted() -> None:
    x = np.random.default_rng(6).permutation(4608).astype(np.float32)
    many = np.linspace(0, 1, 20, dtype=np.float32)
    compiled = run(squared(lambda a: jnp.quantile(a, many)), LINE, [["x"]], x, error=1e-6)
    assert sent(compiled) > x.size


def test_what_a_sort_gives_that_is_not_read_is_not_sorted() -> None:
    """A gradient sorts two arrays of places, of which it reads one."""

    def weighted(a: Any) -> Any:
        return jnp.argsort(a)[3:6].astype(np.float32) * jnp.sort(a)[500]

    x = np.random.default_rng(8).normal(size=6000).astype(np.float32)
    compiled = run(squared(weighted), LINE, [["x"]], x)
    assert sent(compiled) < 2 * FEW
    compiled = run(lambda a, b: lax.sort((a, b, -b), num_keys=2)[2], LINE, [["x"], ["x"]], x, x)
    assert "all_to_all" in kinds(compiled)


def test_gradients_in_loops_and_of_many() -> None:
    x = np.random.default_rng(7).integers(-90, 90, (3, 1608)).astype(np.float32)

    def walked(a: Any) -> Any:
        return lax.fori_loop(0, 3, lambda _, b: b - squared(several)(b) / 64, a)

    assert sent(run(walked, LINE, [["x"]], x[0], error=1e-5)) < 6 * FEW
    many = jax.vmap(squared(several))
    assert sent(run(many, LINE, [[UNSHARDED, "x"]], x, error=1e-6)) < 6 * FEW


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
