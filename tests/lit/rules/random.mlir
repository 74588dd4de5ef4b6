// RUN: dtensor-opt %s --dtensor-print-rules 2>&1 | filecheck %s

// The bits can be split, the state of the generator cannot.

func.func @bits(%key: tensor<2xui64>, %low: tensor<f32>, %shape: tensor<2xi64>) -> tensor<3x4xui32> {
  // CHECK: remark: stablehlo.rng_bit_generator: [*] -> [*], [a, b]; dimension 0 of operand 0 is the state of the generator
  %0:2 = stablehlo.rng_bit_generator %key, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<3x4xui32>)
  // CHECK: remark: stablehlo.rng: [], [], [*] -> [*, *]; dimension 0 of result 0 is drawn from a state that each device has for itself
  %1 = stablehlo.rng %low, %low, %shape, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<3x4xf32>
  return %0#1 : tensor<3x4xui32>
}
