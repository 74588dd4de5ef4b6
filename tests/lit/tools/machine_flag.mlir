// RUN: dtensor-opt %s --dtensor-spmd --machine v5e | filecheck %s
// RUN: not dtensor-opt %s --dtensor-spmd --machine v5f 2>&1 | filecheck %s --check-prefix=UNKNOWN

// A plan is made for a machine that is named.

// CHECK: func.func @main
// CHECK: stablehlo.all_gather

// UNKNOWN: error: there is no machine 'v5f'; did you mean 'v5p'

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
func.func @main(%a: tensor<4x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
    -> (tensor<4x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  return %a : tensor<4x6xf32>
}
