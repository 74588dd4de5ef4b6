// RUN: dtensor-opt %s -p dtensor-lower --split-input-file --verify-diagnostics

// A relayout speaks of global types; lowering works on local ones.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%arg0: tensor<8x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) -> tensor<8x6xf32> {
  // expected-error @+1 {{'dtensor.relayout' cannot be lowered; run dtensor-expand before dtensor-lower}}
  %0 = "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{"x"}, {}]>} : (tensor<8x6xf32>) -> tensor<8x6xf32>
  return %0 : tensor<8x6xf32>
}
