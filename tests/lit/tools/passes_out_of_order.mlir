// RUN: dtensor-opt %s --split-input-file --verify-diagnostics --dtensor-insert-relayouts
// RUN: dtensor-opt %s --split-input-file --verify-diagnostics --dtensor-report-cost
// RUN: dtensor-opt %s --split-input-file --verify-diagnostics --dtensor-optimize-collectives

// Passes that come before those that they build on say so: without a mesh,

// expected-error @+1 {{no mesh: give the module a dtensor.mesh, or pass --mesh x=2,y=4 (in Python mesh=)}}
func.func @main(%a: tensor<8x6xf32>) -> tensor<8x6xf32> {
  return %a : tensor<8x6xf32>
}

// -----

// or with meshes that are not merged.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
"dtensor.mesh"() {sym_name = "other", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// expected-error @+1 {{reads a module of one mesh, this has @mesh and @other; run dtensor-import before}}
func.func @main(%a: tensor<8x6xf32>) -> tensor<8x6xf32> {
  return %a : tensor<8x6xf32>
}

// -----

// or with a mesh of Shardy's, which is read by the import.

sdy.mesh @mesh = <["x"=2, "y"=4]>

// expected-error @+1 {{does not read Shardy's; run dtensor-import before, which does}}
func.func @main(%a: tensor<8x6xf32>) -> tensor<8x6xf32> {
  return %a : tensor<8x6xf32>
}
