// RUN: dtensor-opt %s | dtensor-opt | filecheck %s

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @one_row_from_below_and_two_from_above
func.func @one_row_from_below_and_two_from_above(%arg0: tensor<4x3xf32>) -> tensor<7x3xf32> {
  // CHECK: "dtensor.halo_exchange"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64, high = 2 : i64, low = 1 : i64} : (tensor<4x3xf32>) -> tensor<7x3xf32>
  %0 = "dtensor.halo_exchange"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64, low = 1 : i64, high = 2 : i64} : (tensor<4x3xf32>) -> tensor<7x3xf32>
  return %0 : tensor<7x3xf32>
}
