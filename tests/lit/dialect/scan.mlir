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

// What combines matrices takes any number of them.
// CHECK-LABEL: func.func @scan_of_matrices
func.func @scan_of_matrices(%a: tensor<8x3x3xf32>, %b: tensor<8x3xf32>) -> tensor<8x3xf32> {
  // CHECK: "dtensor.scan"(%{{.*}}, %{{.*}}) ({
  // CHECK-NEXT: ^bb0(%{{.*}}: tensor<2x3x3xf32>, %{{.*}}: tensor<2x3xf32>, %{{.*}}: tensor<2x3x3xf32>, %{{.*}}: tensor<2x3xf32>):
  %0:2 = "dtensor.scan"(%a, %b) ({
  ^bb0(%p: tensor<2x3x3xf32>, %u: tensor<2x3xf32>, %q: tensor<2x3x3xf32>, %v: tensor<2x3xf32>):
    %1 = stablehlo.dot_general %q, %p, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x3x3xf32>, tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
    %2 = stablehlo.dot_general %q, %u, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x3x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %3 = stablehlo.add %2, %v : tensor<2x3xf32>
    stablehlo.return %1, %3 : tensor<2x3x3xf32>, tensor<2x3xf32>
  }) {dim = 0 : i64, reverse = 0 : i64} : (tensor<8x3x3xf32>, tensor<8x3xf32>) -> (tensor<8x3x3xf32>, tensor<8x3xf32>)
  return %0#1 : tensor<8x3xf32>
}
