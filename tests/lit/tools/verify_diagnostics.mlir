// What was not expected is an error, and so is what was expected and did not come.
// RUN: not dtensor-opt %s --split-input-file --verify-diagnostics 2>&1 | filecheck %s

// CHECK: verify_diagnostics.mlir:11:3: error: unexpected error: unknown operation 'dtensor.surprise'
// CHECK: verify_diagnostics.mlir:19:1: error: expected error "nothing is wrong here" was not produced
// CHECK: verify_diagnostics.mlir:27:1: error: expected warning "dtensor.known" was not produced
// CHECK-NOT: error

// The first one is expected, the second is not.
func.func @main() {
  "dtensor.surprise"() : () -> ()
  return
}

// -----

func.func @main() {
  // expected-error @below {{nothing is wrong here}}
  return
}

// -----

func.func @main() {
  // expected-warning @+2 {{dtensor.known}}
  // expected-error @below {{dtensor.known}}
  "dtensor.known"() : () -> ()
  return
}
