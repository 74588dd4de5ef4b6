// RUN: dtensor-opt %s | dtensor-opt | filecheck %s

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<6x2xf32>) -> tensor<2x2xf32> {
  // CHECK: "dtensor.qr"(%{{.*}}) {factor = {call_target_name = "Qr"}, product = {call_target_name = "ProductOfElementaryHouseholderReflectors"}} : (tensor<6x2xf32>) -> (tensor<6x2xf32>, tensor<2x2xf32>)
  %0:2 = "dtensor.qr"(%a) {factor = {call_target_name = "Qr"}, product = {call_target_name = "ProductOfElementaryHouseholderReflectors"}} : (tensor<6x2xf32>) -> (tensor<6x2xf32>, tensor<2x2xf32>)
  return %0#1 : tensor<2x2xf32>
}
