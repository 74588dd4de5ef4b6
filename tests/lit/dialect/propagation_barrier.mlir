// RUN: dtensor-opt %s | dtensor-opt | filecheck %s

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<4x3xf32>) -> tensor<4x3xf32> {
  // CHECK: "dtensor.propagation_barrier"(%arg0) {allowed_direction = "backward"} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %0 = "dtensor.propagation_barrier"(%a) {allowed_direction = "backward"} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}
