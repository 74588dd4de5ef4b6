// RUN: dtensor-opt %s --dtensor-drop-layouts | filecheck %s
// RUN: dtensor-opt %s --dtensor-drop-layouts=keep-borders=true | filecheck %s --check-prefix=KEEP

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @nothing_is_left
// CHECK-SAME: (%arg0: tensor<2x4xf32> {jax.name = "a"}) -> tensor<2x4xf32> {
// KEEP-LABEL: func.func @nothing_is_left
// KEEP-SAME: (%arg0: tensor<2x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>, jax.name = "a"})
// KEEP-SAME: -> (tensor<2x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>})
func.func @nothing_is_left(
    %arg0: tensor<2x4xf32> {jax.name = "a", dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
    -> (tensor<2x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>}) {
  // CHECK-NOT: dtensor
  // KEEP-NOT: dtensor
  %0 = "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{}, {"y"}]>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: stablehlo.tanh %arg0 : tensor<2x4xf32>
  %1 = stablehlo.tanh %0 {dtensor.results = [#dtensor.layout<@mesh, [{}, {"y"}]>]} : tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}
