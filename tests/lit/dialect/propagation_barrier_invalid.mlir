// RUN: dtensor-opt %s --split-input-file --verify-diagnostics

func.func @main(%a: tensor<4x3xf32>) -> tensor<4x3xf32> {
  // expected-error @below {{attribute 'allowed_direction' must be one of none, forward, backward, found "both"}}
  %0 = "dtensor.propagation_barrier"(%a) {allowed_direction = "both"} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

func.func @main(%a: tensor<4x3xf32>) -> tensor<4x3xf32> {
  // expected-error @below {{'dtensor.propagation_barrier' lacks attribute 'allowed_direction'; add one of none, forward, backward}}
  %0 = "dtensor.propagation_barrier"(%a) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

func.func @main(%a: tensor<4x3xf32>) -> tensor<4x2xf32> {
  // expected-error @below {{results differ from operands; give each operand a result of its type}}
  %0 = "dtensor.propagation_barrier"(%a) {allowed_direction = "none"} : (tensor<4x3xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
