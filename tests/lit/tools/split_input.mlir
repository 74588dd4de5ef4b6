// RUN: dtensor-opt %s --split-input-file | filecheck %s
// RUN: not dtensor-opt %s --split-input-file --verify-each -p dtensor-inline -o %t 2>&1 | filecheck %s --check-prefix=FAIL

// Modules are separate: both may define @main. What fails does not stop the others.

// CHECK: func.func @main() -> tensor<2xf32>
// CHECK: // -----
// CHECK: func.func @main() -> tensor<3xf32>
// FAIL: split_input.mlir:26:8: error: @gone has no body
func.func @main() -> tensor<2xf32> {
  %0 = stablehlo.constant dense<1.0> : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @main() -> tensor<3xf32> {
  %0 = stablehlo.constant dense<1.0> : tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func private @gone() -> tensor<f32>
func.func @main() -> tensor<f32> {
  %0 = call @gone() : () -> tensor<f32>
  return %0 : tensor<f32>
}
