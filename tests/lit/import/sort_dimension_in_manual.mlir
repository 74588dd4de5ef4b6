// RUN: dtensor-opt %s --dtensor-import | filecheck %s

// A manual region over all axes is left as it is written, but for what XLA cannot read.

sdy.mesh @mesh = <["x"=2]>

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<6x4xf32>) -> tensor<6x4xf32> {
  // CHECK: dtensor.manual
  // CHECK: stablehlo.sort"(%{{.*}}) <{dimension = 1 : i64}>
  // CHECK: tensor<3x4xf32>
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%b: tensor<3x4xf32>) {
    %1 = "stablehlo.sort"(%b) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %is = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %is : tensor<i1>
    }) {dimension = -1 : i64} : (tensor<3x4xf32>) -> tensor<3x4xf32>
    sdy.return %1 : tensor<3x4xf32>
  } : (tensor<6x4xf32>) -> tensor<6x4xf32>
  return %0 : tensor<6x4xf32>
}
