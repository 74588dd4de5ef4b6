// RUN: dtensor-opt %s --split-input-file --verify-diagnostics

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<8xf32>) {
  // expected-error @below {{dimension 0 has 8 elements, not divisible by the 6 blocks of {3, "x"}; pad it to 12, or leave it whole}}
  %0 = "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{3, "x"}]>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<6xf32>) {
  // expected-error @below {{result is tensor<3xf32>, but relayout (same global type) gives tensor<6xf32>; change the result type}}
  %0 = "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{"x"}]>} : (tensor<6xf32>) -> tensor<3xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<6xf32>) {
  // expected-error @below {{'dtensor.relayout' lacks attribute 'layout'; add a layout such as #dtensor.layout<@mesh, [{"x"}]>}}
  %0 = "dtensor.relayout"(%arg0) : (tensor<6xf32>) -> tensor<6xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<6xf32>) {
  // expected-error @below {{'dtensor.relayout' has 2 operands; give 1 operand}}
  %0 = "dtensor.relayout"(%arg0, %arg0) {layout = #dtensor.layout<@mesh, [{"x"}]>} : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<6xf32>) {
  // expected-error @below {{'dtensor.relayout' has 0 results; give 1 result}}
  "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{"x"}]>} : (tensor<6xf32>) -> ()
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: !stablehlo.token) {
  // expected-error @below {{'dtensor.relayout' works on tensors of static shape, found !stablehlo.token}}
  %0 = "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, []>} : (!stablehlo.token) -> !stablehlo.token
  return
}
