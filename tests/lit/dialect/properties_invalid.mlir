// RUN: dtensor-opt %s --split-input-file --verify-diagnostics

// An unknown name hides nowhere: braces and quotes inside the properties do not confuse the reader.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<4xf32>) {
  // expected-error @below {{'dtensor.relayout' has no attribute 'note'; known are layout}}
  %0 = "dtensor.relayout"(%arg0) <{note = "}> {", layout = #dtensor.layout<@mesh, [{}], partial = {sum: "x"}>}> : (tensor<4xf32>) -> tensor<4xf32>
  return
}
