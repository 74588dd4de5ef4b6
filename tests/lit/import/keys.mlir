// RUN: dtensor-opt %s --dtensor-import --mesh x=2,y=4 | filecheck %s

// jax says on a mesh without axes that the data of a random key is whole; that holds on any mesh.

// CHECK-LABEL: module @jit_split
// CHECK-NOT: sdy
// CHECK: "dtensor.mesh"() {mesh = #dtensor.mesh<["x"=2, "y"=4]>, sym_name = "mesh"}
module @jit_split {
  sdy.mesh @empty_mesh = <[]> {stablehlo.mesh = {axes = []}}
  func.func public @main(%arg0: tensor<4x2xui32>) -> tensor<4x2xui32> {
    // CHECK: "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{?}, {}]>} : (tensor<4x2xui32>)
    %0 = sdy.sharding_constraint %arg0 <@empty_mesh, [{?}, {}]> : tensor<4x2xui32>
    return %0 : tensor<4x2xui32>
  }
}
