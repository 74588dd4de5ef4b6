// RUN: dtensor-opt %s --verify-diagnostics

func.func @main(%arg0: tensor<4x3xf32>, %arg1: tensor<f32>) {
  // expected-error @below {{sources, starts and counts differ in length; give one of each per stretch}}
  %0 = "dtensor.splice"(%arg0) {dim = 1 : i64, sources = array<i64: 0, 0>, starts = array<i64: 0, 0>, counts = array<i64: 2>} : (tensor<4x3xf32>) -> tensor<4x2xf32>
  // expected-error @below {{there is no operand 1; there are 1}}
  %1 = "dtensor.splice"(%arg0) {dim = 1 : i64, sources = array<i64: 1>, starts = array<i64: 0>, counts = array<i64: 2>} : (tensor<4x3xf32>) -> tensor<4x2xf32>
  // expected-error @below {{elements 2 to 4 are beyond the 3 of operand 0}}
  %2 = "dtensor.splice"(%arg0) {dim = 1 : i64, sources = array<i64: 0>, starts = array<i64: 2>, counts = array<i64: 2>} : (tensor<4x3xf32>) -> tensor<4x2xf32>
  // expected-error @below {{result is tensor<4x3xf32>, but putting these stretches together gives tensor<4x2xf32>; change the result type}}
  %3 = "dtensor.splice"(%arg0) {dim = 1 : i64, sources = array<i64: 0>, starts = array<i64: 1>, counts = array<i64: 2>} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  return
}
