// RUN: dtensor-opt %s --dtensor-expand | filecheck %s

// A module that holds no program, only functions without layouts, stays as it is.

// CHECK: module {
// CHECK-NEXT: func.func @helper(%arg0: tensor<8xf32>) -> tensor<8xf32>
func.func @helper(%a: tensor<8xf32>) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
