"""Modules that other frameworks write: tuples, CHLO's broadcasts, reduces of unrelated arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

import dtensor

LINE = dtensor.create_mesh([("x", 8)])
COLUMNS = dtensor.Layout([None, "x"], LINE)
ROWS = dtensor.Layout(["x", None], LINE)


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.asarray(np.random.default_rng(5).normal(size=shape)).astype(np.float32)


def test_an_array_in_a_tuple_stays_where_it_is() -> None:
    module = """func.func @main(%a: tensor<16x24xf32>, %b: tensor<3xf32>) -> tensor<16x24xf32> {
      %0 = stablehlo.tuple %a, %b : tuple<tensor<16x24xf32>, tensor<3xf32>>
      %1 = stablehlo.get_tuple_element %0[0]
        : (tuple<tensor<16x24xf32>, tensor<3xf32>>) -> tensor<16x24xf32>
      %2 = stablehlo.negate %1 : tensor<16x24xf32>
      return %2 : tensor<16x24xf32>
    }"""
    compiled = dtensor.compile_mlir(module, in_layouts=(ROWS, None), out_layouts=ROWS)
    a = numbers(16, 24)
    (found,) = compiled(a, numbers(3))
    np.testing.assert_array_equal(np.asarray(found.to_jax()), -a)
    assert compiled.wire_bytes == 0


def test_broadcasts_of_chlo_stay_split() -> None:
    module = """func.func @main(%a: tensor<16x24xf32>, %b: tensor<24xf32>, %c: tensor<16xf32>)
        -> (tensor<16x24xf32>, tensor<16x24xi1>) {
      %0 = chlo.broadcast_subtract %a, %b
        : (tensor<16x24xf32>, tensor<24xf32>) -> tensor<16x24xf32>
      %1 = chlo.broadcast_compare %c, %0 {broadcast_dimensions = array<i64: 0>,
        comparison_direction = #chlo<comparison_direction GT>}
        : (tensor<16xf32>, tensor<16x24xf32>) -> tensor<16x24xi1>
      return %0, %1 : tensor<16x24xf32>, tensor<16x24xi1>
    }"""
    split = (COLUMNS, dtensor.Layout(["x"], LINE), None)
    compiled = dtensor.compile_mlir(module, in_layouts=split, out_layouts=COLUMNS)
    a, b, c = numbers(16, 24), numbers(24), numbers(16)
    found = [np.asarray(result.to_jax()) for result in compiled(a, b, c)]
    np.testing.assert_array_equal(found[0], a - b)
    np.testing.assert_array_equal(found[1], c[:, None] > a - b)
    assert compiled.wire_bytes == 0


def test_unrelated_arrays_in_one_reduce_send_what_each_sends() -> None:
    module = """func.func @main(%a: tensor<16x4xf32>, %b: tensor<16x4xf32>)
        -> (tensor<4xf32>, tensor<4xf32>) {
      %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %0:2 = stablehlo.reduce(%a init: %low), (%b init: %zero) across dimensions = [0]
        : (tensor<16x4xf32>, tensor<16x4xf32>, tensor<f32>, tensor<f32>)
        -> (tensor<4xf32>, tensor<4xf32>)
       reducer(%x: tensor<f32>, %y: tensor<f32>) (%p: tensor<f32>, %q: tensor<f32>) {
        %r = stablehlo.maximum %x, %y : tensor<f32>
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r, %s : tensor<f32>, tensor<f32>
      }
      return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
    }"""
    whole = dtensor.Layout([None], LINE)
    compiled = dtensor.compile_mlir(module, in_layouts=(ROWS, ROWS), out_layouts=whole)
    a, b = numbers(16, 4), numbers(16, 4)
    found = [np.asarray(result.to_jax()) for result in compiled(a, b)]
    np.testing.assert_array_equal(found[0], a.max(0))
    np.testing.assert_allclose(found[1], b.sum(0), rtol=1e-5)  # another order of the sum
    assert compiled.wire_bytes == 2 * 2 * 7 / 8 * 4 * 4  # an all_reduce of 4 floats each
