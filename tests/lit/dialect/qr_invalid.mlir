// RUN: dtensor-opt %s --verify-diagnostics

func.func @main(%a: tensor<6x2xf32>, %wide: tensor<2x6xf32>, %batch: tensor<3x6x2xf32>) {
  // expected-error @below {{result is tensor<2x2xf32>, but the QR of tensor<3x6x2xf32> has tensor<3x2x2xf32>; change the result type}}
  %3:2 = "dtensor.qr"(%batch) {factor = {call_target_name = "Qr"}, product = {call_target_name = "P"}} : (tensor<3x6x2xf32>) -> (tensor<3x6x2xf32>, tensor<2x2xf32>)
  // expected-error @below {{operand is tensor<2x6xf32>; give a matrix of at least as many rows as columns}}
  %0:2 = "dtensor.qr"(%wide) {factor = {call_target_name = "Qr"}, product = {call_target_name = "P"}} : (tensor<2x6xf32>) -> (tensor<2x6xf32>, tensor<6x6xf32>)
  // expected-error @below {{result is tensor<6x6xf32>, but the QR of tensor<6x2xf32> has tensor<6x2xf32>; change the result type}}
  %1:2 = "dtensor.qr"(%a) {factor = {call_target_name = "Qr"}, product = {call_target_name = "P"}} : (tensor<6x2xf32>) -> (tensor<6x6xf32>, tensor<2x2xf32>)
  // expected-error @below {{attribute 'factor' must be the attributes of a call, with a call_target_name, found {}}}
  %2:2 = "dtensor.qr"(%a) {factor = {}, product = {call_target_name = "P"}} : (tensor<6x2xf32>) -> (tensor<6x2xf32>, tensor<2x2xf32>)
  return
}
