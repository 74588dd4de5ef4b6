// RUN: dtensor-opt %s --split-input-file --verify-diagnostics

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<3x2xf32>) {
  // expected-error @below {{result is tensor<3x4xf32>, but gathering from 4 devices gives tensor<3x8xf32>; change the result type}}
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 1 : i64} : (tensor<3x2xf32>) -> tensor<3x4xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<3x2xf32>) {
  // expected-error @below {{result is tensor<3x8xf16>, but gathering from 4 devices gives tensor<3x8xf32>; change the result type}}
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 1 : i64} : (tensor<3x2xf32>) -> tensor<3x8xf16>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<3x2xf32>) {
  // expected-error @below {{dim = 2 is no dimension of a tensor of rank 2; give 0 to 1}}
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 2 : i64} : (tensor<3x2xf32>) -> tensor<3x8xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<f32>) {
  // expected-error @below {{dim = 0 is no dimension of a scalar; give a tensor with dimensions}}
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<f32>) -> tensor<f32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<3x2xf32>) {
  // expected-error @below {{attribute 'dim' must be an integer such as 0 : i64, found 1 : i32}}
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 1 : i32} : (tensor<3x2xf32>) -> tensor<3x8xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<3x2xf32>) {
  // expected-error @below {{'dtensor.all_gather' lacks attribute 'axes'; add axes such as #dtensor.axes<@mesh, ["x"]>}}
  // expected-error @below {{'dtensor.all_gather' has no attribute 'axis'; did you mean 'axes'?}}
  %0 = "dtensor.all_gather"(%arg0) {axis = #dtensor.axes<@mesh, ["y"]>, dim = 1 : i64} : (tensor<3x2xf32>) -> tensor<3x8xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<3x2xf32>, %arg1: tensor<5xf32>) {
  // expected-error @below {{operand 1: dim = 1 is no dimension of a tensor of rank 1; give 0 to 0}}
  %0:2 = "dtensor.all_gather"(%arg0, %arg1) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 1 : i64} : (tensor<3x2xf32>, tensor<5xf32>) -> (tensor<3x8xf32>, tensor<20xf32>)
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<2xf32>, %arg1: tensor<5xi16>) {
  // expected-error @below {{operand 1: is tensor<5xi16>, but operand 0 is of f32; give it an operation alone}}
  %0:2 = "dtensor.all_gather"(%arg0, %arg1) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<2xf32>, tensor<5xi16>) -> (tensor<8xf32>, tensor<20xi16>)
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<2xf32>, %arg1: tensor<5xf32>) {
  // expected-error @below {{'dtensor.all_gather' has 2 operands and 1 results; give one result for each operand}}
  %0 = "dtensor.all_gather"(%arg0, %arg1) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<2xf32>, tensor<5xf32>) -> tensor<8xf32>
  return
}
