// RUN: dtensor-opt %s --split-input-file --verify-diagnostics

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<3x6xf32>) {
  // expected-error @below {{dimension 1 has 6 elements, not divisible by the 4 devices of axes ['y']; pad it to 8, or use other axes}}
  %0 = "dtensor.reduce_scatter"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 1 : i64, reduction = "sum"} : (tensor<3x6xf32>) -> tensor<3x2xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<3x8xf32>) {
  // expected-error @below {{'dtensor.reduce_scatter' lacks attribute 'reduction'; add one of sum, max, min, prod, and, or}}
  %0 = "dtensor.reduce_scatter"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 1 : i64} : (tensor<3x8xf32>) -> tensor<3x2xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<3x8xf32>) {
  // expected-error @below {{result is tensor<3x8xf32>, but slicing among 4 devices gives tensor<3x2xf32>}}
  %0 = "dtensor.reduce_scatter"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 1 : i64, reduction = "sum"} : (tensor<3x8xf32>) -> tensor<3x8xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<8x3xf32>, %arg1: tensor<6xf32>) {
  // expected-error @below {{operand 1: dimension 0 has 6 elements, not divisible by the 4 devices of axes ['y']; pad it to 8, or use other axes}}
  %0:2 = "dtensor.reduce_scatter"(%arg0, %arg1) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64, reduction = "sum"} : (tensor<8x3xf32>, tensor<6xf32>) -> (tensor<2x3xf32>, tensor<1xf32>)
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<8xf32>, %arg1: tensor<4xi32>) {
  // expected-error @below {{operand 1: is tensor<4xi32>, but operand 0 is of f32; give it an operation alone}}
  %0:2 = "dtensor.reduce_scatter"(%arg0, %arg1) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64, reduction = "sum"} : (tensor<8xf32>, tensor<4xi32>) -> (tensor<2xf32>, tensor<1xi32>)
  return
}
