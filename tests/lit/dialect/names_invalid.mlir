// RUN: dtensor-opt %s --split-input-file --verify-diagnostics

// What is misspelt is refused, though MLIR would let it pass.

func.func @main(%arg0: tensor<4xf32>) {
  // expected-error @below {{unknown operation 'dtensor.all_gahter'; did you mean 'dtensor.all_gather'?}}
  %0 = "dtensor.all_gahter"(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @main(%arg0: tensor<4xf32>) {
  // expected-error @below {{unknown attribute 'dtensor.operand'; did you mean 'dtensor.operands'?}}
  %0 = stablehlo.abs %arg0 {dtensor.operand = 1 : i64} : tensor<4xf32>
  return
}

// -----

// expected-error @below {{argument 0: unknown attribute 'dtensor.loyout'; did you mean 'dtensor.layout'?}}
func.func private @main(tensor<4xf32> {dtensor.loyout = 1 : i64})

// -----

func.func @main(%arg0: tensor<4xf32>) {
  // expected-error @below {{'dtensor.layout' stands on 'stablehlo.abs'; it belongs to function arguments and results: use dtensor.relayout}}
  %0 = stablehlo.abs %arg0 {dtensor.layout = #dtensor.layout<@mesh, [{}]>} : tensor<4xf32>
  return
}

// -----

func.func @main() {
  // expected-error @below {{'dtensor.local' stands on 'func.return'; it belongs to the module: remove it}}
  return {dtensor.local}
}

// -----

func.func @main(%arg0: tensor<4xf32>) {
  // expected-error @below {{unknown operation 'tf.Add'; known dialects are stablehlo, chlo, func, sdy and dtensor}}
  %0 = "tf.Add"(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @main(%arg0: tensor<4xf32>) {
  // expected-error @below {{unregistered operation 'stablehlo.adx' found in dialect ('stablehlo')}}
  %0 = "stablehlo.adx"(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// Inside regions as well.
func.func @main(%arg0: tensor<i1>) -> tensor<f32> {
  %0 = "stablehlo.if"(%arg0) ({
    // expected-error @below {{unknown operation 'dtensor.axis_indices'; did you mean 'dtensor.axis_index'?}}
    %1 = "dtensor.axis_indices"() : () -> tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }, {
    %1 = stablehlo.constant dense<1.0> : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<i1>) -> tensor<f32>
  return %0 : tensor<f32>
}
