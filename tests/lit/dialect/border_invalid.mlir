// RUN: dtensor-opt %s --split-input-file --verify-diagnostics

// Arguments and results of @main must be complete and contiguous; places are the argument's own.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(
    %arg0: tensor<4xf32>,
    // expected-error @below {{argument 1: partial over axes ['x']; arguments and results must be complete: reduce first}}
    %arg1: tensor<4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}], partial = {sum: "x"}>}) {
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
// expected-error @below {{result 0: dimension 0 is cut into blocks, {3, "x"}; arguments and results must have contiguous shards: drop the block count}}
func.func @main() -> (tensor<6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{3, "x"}]>}) {
  %0 = stablehlo.constant dense<1.0> : tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

// The only public function is the entry, whatever its name.
"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
// expected-error @below {{result 0: partial over axes ['x']}}
func.func @step() -> (tensor<6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}], partial = {max: "x"}>}) {
  %0 = stablehlo.constant dense<1.0> : tensor<6xf32>
  return %0 : tensor<6xf32>
}
