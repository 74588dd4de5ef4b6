// RUN: dtensor-opt %s --split-input-file --verify-diagnostics

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<3xf32>) {
  // expected-error @below {{attribute 'reduction' must be one of sum, max, min, prod, and, or, found "add"}}
  %0 = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["x"]>, reduction = "add"} : (tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<3xf32>) {
  // expected-error @below {{'dtensor.all_reduce' has 2 operands and 1 results; give one result for each operand}}
  %0 = "dtensor.all_reduce"(%arg0, %arg0) {axes = #dtensor.axes<@mesh, ["x"]>, reduction = "sum"} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<3xf32>, %arg1: tensor<2xf32>) {
  // expected-error @below {{result 1 is tensor<3xf32>, but operand 1 is tensor<2xf32>; make them equal}}
  %0:2 = "dtensor.all_reduce"(%arg0, %arg1) {axes = #dtensor.axes<@mesh, ["x"]>, reduction = "sum"} : (tensor<3xf32>, tensor<2xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main() {
  // expected-error @below {{'dtensor.all_reduce' has no operand; give one or more}}
  // expected-error @below {{'dtensor.all_reduce' has no result; give one or more}}
  "dtensor.all_reduce"() {axes = #dtensor.axes<@mesh, ["x"]>, reduction = "sum"} : () -> ()
  return
}
