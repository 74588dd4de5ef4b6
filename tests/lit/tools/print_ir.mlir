// RUN: dtensor-opt %s --cse --dtensor-verify --mlir-print-ir-after=cse -o %t 2>&1 | filecheck %s --check-prefix=AFTER
// RUN: dtensor-opt %s --cse --dtensor-verify --mlir-print-ir-before=cse,dtensor-verify -o %t 2>&1 | filecheck %s --check-prefix=BEFORE
// RUN: dtensor-opt %s --cse --dtensor-verify --mlir-print-ir-before-all --mlir-print-ir-after-all -o %t 2>&1 | filecheck %s --check-prefix=ALL
// RUN: dtensor-opt %s --cse --mlir-print-ir-after-all 2>&1 >%t | filecheck %s --check-prefix=STDERR

// AFTER-NOT: IR Dump Before
// AFTER: // -----// IR Dump After cse //----- //
// AFTER: func.func @main
// AFTER: stablehlo.tanh
// AFTER-NOT: stablehlo.tanh
// AFTER-NOT: IR Dump

// BEFORE: IR Dump Before cse
// BEFORE: stablehlo.tanh
// BEFORE: stablehlo.tanh
// BEFORE: IR Dump Before dtensor-verify
// BEFORE: stablehlo.tanh
// BEFORE-NOT: stablehlo.tanh

// ALL: IR Dump Before cse
// ALL: IR Dump After cse
// ALL: IR Dump Before dtensor-verify
// ALL: IR Dump After dtensor-verify

// STDERR: IR Dump After cse
func.func @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.tanh %arg0 : tensor<2xf32>
  %1 = stablehlo.tanh %arg0 : tensor<2xf32>
  %2 = stablehlo.add %0, %1 : tensor<2xf32>
  return %2 : tensor<2xf32>
}
