// RUN: dtensor-opt %s --split-input-file --verify-diagnostics

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<6x3xf32>) {
  // expected-error @below {{dimension 0 has 6 elements, not divisible by the 4 devices of axes ['y']; pad it to 8, or use other axes}}
  %0 = "dtensor.all_slice"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<6x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<8x3xf32>) {
  // expected-error @below {{result is tensor<8x3xf32>, but slicing among 4 devices gives tensor<2x3xf32>; change the result type}}
  %0 = "dtensor.all_slice"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<8x3xf32>) -> tensor<8x3xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<8x3xf32>) {
  // expected-error @below {{dim = -1 is no dimension of a tensor of rank 2; give 0 to 1}}
  %0 = "dtensor.all_slice"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = -1 : i64} : (tensor<8x3xf32>) -> tensor<2x3xf32>
  return
}
