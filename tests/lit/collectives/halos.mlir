// RUN: dtensor-opt %s --dtensor-optimize-collectives | filecheck %s

// What several operations need of one value's neighbours is exchanged once, as far as any reaches.

module attributes {dtensor.local} {
"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4, "y"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<8x5xf32>) -> (tensor<11x5xf32>, tensor<13x5xf32>, tensor<9x5xf32>, tensor<8x7xf32>) {
  // CHECK: %[[ALL:.*]] = "dtensor.halo_exchange"(%arg0) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64, high = 4 : i64, low = 2 : i64} : (tensor<8x5xf32>) -> tensor<14x5xf32>
  // CHECK: %[[ONE:.*]] = stablehlo.slice %[[ALL]] [0:11, 0:5]
  %0 = "dtensor.halo_exchange"(%x) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64, low = 2 : i64, high = 1 : i64} : (tensor<8x5xf32>) -> tensor<11x5xf32>
  // CHECK: %[[TWO:.*]] = stablehlo.slice %[[ALL]] [1:14, 0:5]
  %1 = "dtensor.halo_exchange"(%x) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64, low = 1 : i64, high = 4 : i64} : (tensor<8x5xf32>) -> tensor<13x5xf32>
  // Not along another axis, nor another dimension.
  // CHECK: "dtensor.halo_exchange"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>
  %2 = "dtensor.halo_exchange"(%x) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64, low = 1 : i64, high = 0 : i64} : (tensor<8x5xf32>) -> tensor<9x5xf32>
  // CHECK: "dtensor.halo_exchange"(%arg0) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 1 : i64
  %3 = "dtensor.halo_exchange"(%x) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 1 : i64, low = 1 : i64, high = 1 : i64} : (tensor<8x5xf32>) -> tensor<8x7xf32>
  // CHECK: return %[[ONE]], %[[TWO]]
  return %0, %1, %2, %3 : tensor<11x5xf32>, tensor<13x5xf32>, tensor<9x5xf32>, tensor<8x7xf32>
}
}
