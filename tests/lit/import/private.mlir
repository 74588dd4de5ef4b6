// RUN: dtensor-opt %s -p dtensor-import,dtensor-propagate | filecheck %s

// The only function there is is the program, private or not: it is made public, or cleaning up would remove it.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK: func.func @alone
// CHECK-SAME: -> (tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>})
func.func private @alone(%a: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) -> tensor<8xf32> {
  %0 = stablehlo.tanh %a : tensor<8xf32>
  return %0 : tensor<8xf32>
}
