// RUN: dtensor-opt %s --split-input-file --verify-diagnostics

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<4x3xf32>) {
  // expected-error @below {{low = 5 is not between 0 and the 4 elements of a shard; only the direct neighbours' elements can be had: split over fewer devices}}
  %0 = "dtensor.halo_exchange"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64, low = 5 : i64, high = 0 : i64} : (tensor<4x3xf32>) -> tensor<9x3xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<4x3xf32>) {
  // expected-error @below {{high = -1 is not between 0 and the 4 elements of a shard}}
  %0 = "dtensor.halo_exchange"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64, low = 1 : i64, high = -1 : i64} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<4x3xf32>) {
  // expected-error @below {{result is tensor<5x3xf32>, but a halo of 1 and 1 elements gives tensor<6x3xf32>}}
  %0 = "dtensor.halo_exchange"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64, low = 1 : i64, high = 1 : i64} : (tensor<4x3xf32>) -> tensor<5x3xf32>
  return
}
