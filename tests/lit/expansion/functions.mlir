// RUN: dtensor-opt %s --dtensor-expand | filecheck %s

// Signatures get local types and keep their layouts; ops lose theirs, and the module is marked.

// CHECK: module attributes {dtensor.local}
"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func public @main
// CHECK-SAME: (%arg0: tensor<4x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>, tf.name = "a"}, %arg1: tensor<3x5xbf16>
// CHECK-SAME: -> (tensor<4x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>, jax.result_info = "r"})
func.func public @main(
    %a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>, tf.name = "a"},
    %b: tensor<3x20xbf16> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>})
    -> (tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>, jax.result_info = "r"}) {
  // CHECK-NEXT: %0 = stablehlo.add %arg0, %arg0 {stays = 1 : i64} : tensor<4x12xf32>
  %0 = stablehlo.add %a, %a {stays = 1 : i64,
      dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {}]>, #dtensor.layout<@mesh, [{"x"}, {}]>],
      dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : tensor<8x12xf32>
  // CHECK-NEXT: return %0 : tensor<4x12xf32>
  return %0 : tensor<8x12xf32>
}

// A function without layouts is not part of the program: another op calls it on scalars.
// CHECK-LABEL: func.func private @reducer(%arg0: tensor<f32>)
func.func private @reducer(%a: tensor<f32>) -> tensor<f32> {
  return %a : tensor<f32>
}

// Values that are no tensors have no layout.
// CHECK-LABEL: func.func @tokens
func.func @tokens(%a: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}, %t: !stablehlo.token)
    -> (tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}, !stablehlo.token) {
  // CHECK-NEXT: stablehlo.after_all %arg1, %arg1 : !stablehlo.token
  %0 = stablehlo.after_all %t, %t : !stablehlo.token
  // CHECK-NEXT: %{{.*}}:2 = stablehlo.custom_call @print(%arg0, %{{.*}}) : (tensor<8xf32>, !stablehlo.token) -> (tensor<8xf32>, !stablehlo.token)
  %1:2 = stablehlo.custom_call @print(%a, %0) {dtensor.results = [#dtensor.layout<@mesh, [{}]>, unit]} : (tensor<8xf32>, !stablehlo.token) -> (tensor<8xf32>, !stablehlo.token)
  return %1#0, %1#1 : tensor<8xf32>, !stablehlo.token
}
