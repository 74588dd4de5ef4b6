// RUN: not dtensor-opt %s --dtensor-optimize-relayouts 2>&1 | filecheck %s

// Layouts of dimensions that are not padded have no relayouts yet.

// CHECK: error: a tensor of shape [10, 9] cannot have the layout [{"y"}, {}]: dimension 0 has 10 elements
"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%a: tensor<10x9xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>})
    -> (tensor<10x9xf32>) {
  %1 = "dtensor.relayout"(%a) {layout = #dtensor.layout<@mesh, [{}, {"x"}]>} : (tensor<10x9xf32>) -> tensor<10x9xf32>
  %2 = stablehlo.tanh %1 : tensor<10x9xf32>
  return %2 : tensor<10x9xf32>
}
