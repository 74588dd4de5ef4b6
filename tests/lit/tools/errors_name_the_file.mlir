// RUN: not dtensor-opt %s 2>&1 | filecheck %s --check-prefix=FILE
// RUN: not dtensor-opt < %s 2>&1 | filecheck %s --check-prefix=STDIN
// RUN: not dtensor-opt %s --split-input-file 2>&1 | filecheck %s --check-prefix=SPLIT

// FILE: errors_name_the_file.mlir:13:8: error: unknown operation 'dtensor.nothing'; known are dtensor.mesh
// STDIN: <stdin>:13:8: error: unknown operation 'dtensor.nothing'; known are dtensor.mesh
// SPLIT: errors_name_the_file.mlir:13:8: error: unknown operation 'dtensor.nothing'; known are dtensor.mesh
// SPLIT-NEXT: %0 = "dtensor.nothing"() : () -> tensor<f32>

// -----

func.func @main() {
  %0 = "dtensor.nothing"() : () -> tensor<f32>
  return
}
