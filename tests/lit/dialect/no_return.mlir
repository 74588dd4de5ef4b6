// RUN: dtensor-opt %s --split-input-file --verify-diagnostics

// MLIR takes an operation that it does not know for a return.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
func.func @of_a_function(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.sine %a : tensor<8xf32>
  // expected-error @+1 {{'dtensor.relayout' ends a block; put a return behind it}}
  %1 = "dtensor.relayout"(%0) {layout = #dtensor.layout<@mesh, [{"x"}]>} : (tensor<8xf32>) -> tensor<8xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
func.func @of_several_blocks(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = "dtensor.relayout"(%a) {layout = #dtensor.layout<@mesh, [{"x"}]>} : (tensor<8xf32>) -> tensor<8xf32>
  %1 = "dtensor.relayout"(%0) {layout = #dtensor.layout<@mesh, [{}]>} : (tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}
func.func @last(%a: tensor<8xf32>) {
  // expected-error @+1 {{'dtensor.relayout' ends a block; put a return behind it}}
  %1 = "dtensor.relayout"(%a) {layout = #dtensor.layout<@mesh, [{"x"}]>} : (tensor<8xf32>) -> tensor<8xf32>
}
"dtensor.mesh"() {sym_name = "other", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
func.func @of_a_region(%a: tensor<8xf32>, %p: tensor<i1>) -> tensor<8xf32> {
  // expected-note @+2 {{in custom textual format, the absence of terminator implies 'stablehlo.return'}}
  // expected-error @+1 {{expects regions to end with 'stablehlo.return', found 'dtensor.relayout'}}
  %0 = "stablehlo.if"(%p) ({
    %1 = "dtensor.relayout"(%a) {layout = #dtensor.layout<@mesh, [{"x"}]>} : (tensor<8xf32>) -> tensor<8xf32>
  }, {
    stablehlo.return %a : tensor<8xf32>
  }) : (tensor<i1>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
