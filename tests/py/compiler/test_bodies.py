"""What the body of a reduce may read from outside."""

import pytest

import dtensor

PROGRAM = """
func.func @main(%x: tensor<4x6xf32>, %w: tensor<8xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %scale = stablehlo.reduce(%w init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
  %r = stablehlo.reduce(%x init: %zero) across dimensions = [1]
      : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>
      reducer(%a: tensor<f32>, %b: tensor<f32>) {
    %scaled = stablehlo.multiply %b, %scale : tensor<f32>
    %sum = stablehlo.add %a, %scaled : tensor<f32>
    stablehlo.return %sum : tensor<f32>
  }
  return %r : tensor<4xf32>
}
"""


def test_a_body_that_reads_a_computed_value_is_refused() -> None:
    mesh = dtensor.create_mesh([("x", 2), ("y", 4)])
    layouts = [dtensor.Layout(["x", dtensor.UNSHARDED], mesh), dtensor.Layout(["y"], mesh)]
    with pytest.raises(
        dtensor.CompileError, match="reads a value from outside that is no constant"
    ):
        dtensor.compile_mlir(PROGRAM, mesh=mesh, in_layouts=layouts)
