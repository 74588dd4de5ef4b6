// RUN: dtensor-opt %s --split-input-file --verify-diagnostics

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main() {
  // expected-error @below {{result is tensor<i64>, but a device's coordinate is tensor<i32>; change the result type}}
  %0 = "dtensor.axis_index"() {axes = #dtensor.axes<@mesh, ["x"]>} : () -> tensor<i64>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<i32>) {
  // expected-error @below {{'dtensor.axis_index' has 1 operands; give 0 operands}}
  %0 = "dtensor.axis_index"(%arg0) {axes = #dtensor.axes<@mesh, ["x"]>} : (tensor<i32>) -> tensor<i32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main() {
  // expected-error @below {{'dtensor.axis_index' has a region; it takes none: remove it}}
  %0 = "dtensor.axis_index"() ({
    %1 = stablehlo.constant dense<1.0> : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {axes = #dtensor.axes<@mesh, ["x"]>} : () -> tensor<i32>
  return
}
