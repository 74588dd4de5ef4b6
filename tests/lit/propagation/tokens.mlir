// RUN: dtensor-opt %s --dtensor-propagate --verify-each | filecheck %s
// RUN: dtensor-opt %s --dtensor-propagate | dtensor-opt - -p dtensor-verify-plan,dtensor-insert-relayouts | filecheck %s
// RUN: dtensor-opt %s --dtensor-spmd | filecheck %s --check-prefix=LOCAL

// Tokens that a program takes and returns have no layout, and pass through the whole line.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK: func.func @main(%arg0: !stablehlo.token, %arg1: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>})
// CHECK-SAME: -> (!stablehlo.token, tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>})
// LOCAL: func.func @main(%arg0: !stablehlo.token, %arg1: tensor<4xf32>) -> (!stablehlo.token, tensor<4xf32>)
func.func @main(%t: !stablehlo.token, %a: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) -> (!stablehlo.token, tensor<8xf32>) {
  // LOCAL: stablehlo.tanh %arg1 : tensor<4xf32>
  %0 = stablehlo.tanh %a : tensor<8xf32>
  // LOCAL: stablehlo.after_all %arg0, %arg0 : !stablehlo.token
  %1 = stablehlo.after_all %t, %t : !stablehlo.token
  return %1, %0 : !stablehlo.token, tensor<8xf32>
}
