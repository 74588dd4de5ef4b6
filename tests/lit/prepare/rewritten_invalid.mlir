// RUN: dtensor-opt %s --split-input-file --verify-diagnostics --dtensor-find-forms

// StableHLO does not look at what an index_select gives; what is written for it would not fit.

func.func @main(%a: tensor<8x24x6xf32>, %b: tensor<8x5xi32>) -> tensor<8x5xf32> {
  // expected-error @below {{inferred type(s) 'tensor<8x5x6xf32>' are incompatible with return type(s) of operation 'tensor<8x5xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = "stablehlo.torch_index_select"(%a, %b) <{dim = 1 : i64, batch_dims = 1 : i64}> : (tensor<8x24x6xf32>, tensor<8x5xi32>) -> tensor<8x5xf32>
  return %0 : tensor<8x5xf32>
}

// -----

func.func @main(%a: tensor<4x3xf32>, %b: tensor<3x5xf32>) -> tensor<5x3xf32> {
  // expected-error @below {{stablehlo.einsum gives tensor<5x4xf32>, and not tensor<5x3xf32> as it says}}
  %0 = stablehlo.einsum %a, %b, config = "ij,jk->ki" : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<5x3xf32>
  return %0 : tensor<5x3xf32>
}

// -----

func.func @main(%a: tensor<4x3xf32>, %b: tensor<3x5xf32>) -> tensor<4x5xf32> {
  // expected-error @below {{stablehlo.einsum of ij,jk->iz: no operand has the result's z}}
  %0 = stablehlo.einsum %a, %b, config = "ij,jk->iz" : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}

// -----

func.func @main(%a: tensor<4x3xf32>, %b: tensor<3x5xf32>) -> tensor<4x5xf32> {
  // expected-error @below {{stablehlo.einsum of ij->ij has 2 operands, and not 1}}
  %0 = stablehlo.einsum %a, %b, config = "ij->ij" : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}

// -----

func.func @main(%a: tensor<4x3xf32>, %b: tensor<3x5xf32>) -> tensor<4x5xf32> {
  // expected-error @below {{stablehlo.einsum of ijq,jk->ik: ijq names 3 dimensions of 2}}
  %0 = stablehlo.einsum %a, %b, config = "ijq,jk->ik" : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}

// -----

func.func @main(%a: tensor<4x3xf32>, %b: tensor<4x5xf32>) -> tensor<4x5xf32> {
  // expected-error @below {{stablehlo.einsum of ij,jk->ik: j has 3 and 4 elements}}
  %0 = stablehlo.einsum %a, %b, config = "ij,jk->ik" : (tensor<4x3xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}

// -----

func.func @main(%a: tensor<4x3xf32>, %i: tensor<2xi32>) -> tensor<4x2xf32> {
  // expected-error @below {{stablehlo.torch_index_select has dim = 9; give it one of 0 to 1}}
  %0 = "stablehlo.torch_index_select"(%a, %i) <{dim = 9 : i64, batch_dims = 0 : i64}> : (tensor<4x3xf32>, tensor<2xi32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
