// RUN: dtensor-opt %s --split-input-file --verify-diagnostics

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<4xf32>) {
  // expected-error @below {{axes list names axis "data" that mesh @mesh does not have; known are x, y}}
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["data"]>, dim = 0 : i64} : (tensor<4xf32>) -> tensor<8xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<4xf32>) {
  // expected-error @below {{axes list uses axis "y" twice; name it once}}
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["y", "y":(1)2]>, dim = 0 : i64} : (tensor<4xf32>) -> tensor<32xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<4xf32>) {
  // expected-error @below {{"y":(1)3 is not a part of axis "y", which has 4 devices}}
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["y":(1)3]>, dim = 0 : i64} : (tensor<4xf32>) -> tensor<12xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<4xf32>) {
  // expected-error @below {{unknown mesh @grid; known are @mesh}}
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@grid, ["x"]>, dim = 0 : i64} : (tensor<4xf32>) -> tensor<8xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<4xf32>) {
  // expected-error @below {{malformed axis 'x'; the form is #dtensor.axes<@mesh, ["x", "y":(1)2]>}}
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, [x]>, dim = 0 : i64} : (tensor<4xf32>) -> tensor<8xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<4xf32>) {
  // expected-error @below {{malformed axes '#dtensor.axes<"x">'; the form is #dtensor.axes<@mesh, ["x", "y":(1)2]>}}
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<"x">, dim = 0 : i64} : (tensor<4xf32>) -> tensor<8xf32>
  return
}
