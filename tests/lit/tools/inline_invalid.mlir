// RUN: dtensor-opt %s --dtensor-inline --split-input-file --verify-diagnostics

func.func private @elsewhere(tensor<f32>) -> tensor<f32>
func.func @main(%arg0: tensor<f32>) -> tensor<f32> {
  // expected-error @below {{@elsewhere has no body; define it, or remove the call}}
  %0 = call @elsewhere(%arg0) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func private @odd(%arg0: tensor<f32>) -> tensor<f32> {
  %0 = call @even(%arg0) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @even(%arg0: tensor<f32>) -> tensor<f32> {
  // expected-error @below {{@odd calls itself; recursion cannot be laid out: write a loop}}
  %0 = call @odd(%arg0) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// Nobody calls this one, so nobody minds.
func.func private @unused(%arg0: tensor<f32>) -> tensor<f32> {
  %0 = call @unused(%arg0) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func @main(%arg0: tensor<f32>) -> tensor<f32> {
  return %arg0 : tensor<f32>
}
