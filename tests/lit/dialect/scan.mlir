// RUN: dtensor-opt %s | dtensor-opt | filecheck %s

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<4x3xf32>, %b: tensor<4x3xi32>) -> tensor<4x3xf32> {
  // CHECK: "dtensor.scan"(%{{.*}}, %{{.*}}) ({
  // CHECK: }) {dim = 1 : i64, reverse = 0 : i64} : (tensor<4x3xf32>, tensor<4x3xi32>) -> (tensor<4x3xf32>, tensor<4x3xi32>)
  %0:2 = "dtensor.scan"(%a, %b) ({
  ^bb0(%p: tensor<f32>, %i: tensor<i32>, %q: tensor<f32>, %j: tensor<i32>):
    %1 = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %1, %j : tensor<f32>, tensor<i32>
  }) {dim = 1 : i64, reverse = 0 : i64} : (tensor<4x3xf32>, tensor<4x3xi32>) -> (tensor<4x3xf32>, tensor<4x3xi32>)
  return %0#0 : tensor<4x3xf32>
}
