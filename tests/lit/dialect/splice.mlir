// RUN: dtensor-opt %s | dtensor-opt | filecheck %s

// CHECK-LABEL: func.func @main
func.func @main(%arg0: tensor<4x3xf32>, %arg1: tensor<f32>) -> tensor<4x5xf32> {
  // CHECK: "dtensor.splice"(%{{.*}}, %{{.*}}) {counts = array<i64: 2, 3>, dim = 1 : i64, sources = array<i64: 1, 0>, starts = array<i64: 0, 0>} : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x5xf32>
  %0 = "dtensor.splice"(%arg0, %arg1) {dim = 1 : i64, sources = array<i64: 1, 0>, starts = array<i64: 0, 0>, counts = array<i64: 2, 3>} : (tensor<4x3xf32>, tensor<f32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}
