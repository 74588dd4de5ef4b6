// RUN: dtensor-opt %s -p dtensor-lower | filecheck %s

// On one device nothing communicates and nobody asks for a position.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=1]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%arg0: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<i32>) {
  // CHECK-NEXT: %[[ZERO:.*]] = stablehlo.constant dense<0> : tensor<i32>
  // CHECK-NEXT: return %arg0, %[[ZERO]]
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "dtensor.all_slice"(%0) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = "dtensor.all_reduce"(%1) {axes = #dtensor.axes<@mesh, ["x"]>, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = "dtensor.all_to_all"(%2) {axes = #dtensor.axes<@mesh, ["x"]>, split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = "dtensor.collective_permute"(%3) {from = #dtensor.axes<@mesh, ["x"]>, to = #dtensor.axes<@mesh, ["x"]>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %5 = "dtensor.axis_index"() {axes = #dtensor.axes<@mesh, ["x"]>} : () -> tensor<i32>
  return %4, %5 : tensor<2x3xf32>, tensor<i32>
}
