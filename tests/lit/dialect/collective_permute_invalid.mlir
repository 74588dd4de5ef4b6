// RUN: dtensor-opt %s --split-input-file --verify-diagnostics

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<3xf32>) {
  // expected-error @below {{'from' tells 2 devices apart but 'to' 4; give axes of equal product}}
  %0 = "dtensor.collective_permute"(%arg0) {from = #dtensor.axes<@mesh, ["x"]>, to = #dtensor.axes<@mesh, ["y"]>} : (tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<3xf32>) {
  // expected-error @below {{'from' and 'to' share some axes but not all; give the same axes in another order, or disjoint ones}}
  %0 = "dtensor.collective_permute"(%arg0) {from = #dtensor.axes<@mesh, ["x", "y":(1)2]>, to = #dtensor.axes<@mesh, ["x", "y":(2)2]>} : (tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<3xf32>) {
  // expected-error @below {{result is tensor<4xf32>, but a permutation gives tensor<3xf32>; change the result type}}
  %0 = "dtensor.collective_permute"(%arg0) {from = #dtensor.axes<@mesh, ["x", "y"]>, to = #dtensor.axes<@mesh, ["y", "x"]>} : (tensor<3xf32>) -> tensor<4xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "other", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<3xf32>) {
  // expected-error @below {{attributes refer to meshes @mesh and @other; use one mesh}}
  %0 = "dtensor.collective_permute"(%arg0) {from = #dtensor.axes<@mesh, ["x"]>, to = #dtensor.axes<@other, ["x"]>} : (tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<2xf32>, %arg1: tensor<5xf32>) {
  // expected-error @below {{operand 1: result is tensor<4xf32>, but a permutation gives tensor<5xf32>; change the result type}}
  %0:2 = "dtensor.collective_permute"(%arg0, %arg1) {from = #dtensor.axes<@mesh, ["x"]>, to = #dtensor.axes<@mesh, ["x"]>} : (tensor<2xf32>, tensor<5xf32>) -> (tensor<2xf32>, tensor<4xf32>)
  return
}
