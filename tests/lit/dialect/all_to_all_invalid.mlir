// RUN: dtensor-opt %s --split-input-file --verify-diagnostics

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<8x3xf32>) {
  // expected-error @below {{split_dim and concat_dim are both 0; they must differ}}
  %0 = "dtensor.all_to_all"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, split_dim = 0 : i64, concat_dim = 0 : i64} : (tensor<8x3xf32>) -> tensor<8x3xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<8x3xf32>) {
  // expected-error @below {{dimension 1 has 3 elements, not divisible by the 4 devices of axes ['y']}}
  %0 = "dtensor.all_to_all"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<8x3xf32>) -> tensor<32x3xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<8x3xf32>) {
  // expected-error @below {{result is tensor<8x3xf32>, but exchanging among 4 devices gives tensor<2x12xf32>}}
  %0 = "dtensor.all_to_all"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<8x3xf32>) -> tensor<8x3xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<8x3xf32>) {
  // expected-error @below {{concat_dim = 2 is no dimension of a tensor of rank 2; give 0 to 1}}
  %0 = "dtensor.all_to_all"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, split_dim = 0 : i64, concat_dim = 2 : i64} : (tensor<8x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<8x3xf32>, %arg1: tensor<6x5xf32>) {
  // expected-error @below {{operand 1: dimension 0 has 6 elements, not divisible by the 4 devices of axes ['y']; pad it to 8, or use other axes}}
  %0:2 = "dtensor.all_to_all"(%arg0, %arg1) {axes = #dtensor.axes<@mesh, ["y"]>, split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<8x3xf32>, tensor<6x5xf32>) -> (tensor<2x12xf32>, tensor<1x20xf32>)
  return
}
