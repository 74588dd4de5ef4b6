// RUN: dtensor-opt %s --mesh x=2,y=4 --dtensor-import | filecheck %s

// XLA reads memory before the sizes where a sort counts its dimension from behind.

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>) {
  // CHECK: stablehlo.sort"(%arg0) <{dimension = 2 : i64}>
  %last = "stablehlo.sort"(%a) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %is = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %is : tensor<i1>
  }) {dimension = -1 : i64} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  // CHECK: stablehlo.sort"(%arg0) <{dimension = 0 : i64}>
  %first = "stablehlo.sort"(%a) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %is = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %is : tensor<i1>
  }) {dimension = -3 : i64} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  // CHECK: stablehlo.sort"(%arg0) <{dimension = 2 : i64, is_stable = true}>
  %unnamed = "stablehlo.sort"(%a) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %is = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %is : tensor<i1>
  }) {is_stable = true} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  // CHECK: stablehlo.sort"(%arg0) <{dimension = 1 : i64}>
  %named = "stablehlo.sort"(%a) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %is = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %is : tensor<i1>
  }) {dimension = 1 : i64} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %last, %first, %unnamed, %named : tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>
}
