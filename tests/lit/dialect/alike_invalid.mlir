// RUN: dtensor-opt %s --split-input-file --verify-diagnostics

func.func @shapes_differ(%a: tensor<4x6xf32>, %b: tensor<6x4xf32>) {
  // expected-error @below {{operand 1 is tensor<6x4xf32>, operand 0 is tensor<4x6xf32>; only values of one shape can have one layout: take it out}}
  %0:2 = "dtensor.alike"(%a, %b) : (tensor<4x6xf32>, tensor<6x4xf32>) -> (tensor<4x6xf32>, tensor<6x4xf32>)
  return
}

// -----

func.func @types_differ(%a: tensor<4x6xf32>) {
  // expected-error @below {{results differ from operands; give each operand a result of its type}}
  %0 = "dtensor.alike"(%a) : (tensor<4x6xf32>) -> tensor<4x6xi32>
  return
}
