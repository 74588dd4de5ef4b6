// RUN: dtensor-opt %s | dtensor-opt | filecheck %s

// Between the passes, operations carry the layouts of their operands and results.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @one_layout_for_each_value
func.func @one_layout_for_each_value(%arg0: tensor<2x4xf32>) -> tensor<4x2xf32> {
  // CHECK: stablehlo.transpose
  // CHECK-SAME: dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {}]>]
  // CHECK-SAME: dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}]>]
  %0 = stablehlo.transpose %arg0, dims = [1, 0] {
    dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {}]>],
    dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}]>]
  } : (tensor<2x4xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}

// CHECK-LABEL: func.func @a_token_has_no_layout
func.func @a_token_has_no_layout(%arg0: tensor<4xf32>, %arg1: !stablehlo.token) {
  // CHECK: dtensor.operands = [#dtensor.layout<@mesh, [{"y"}]>, unit]
  %0 = "stablehlo.outfeed"(%arg0, %arg1) {
    dtensor.operands = [#dtensor.layout<@mesh, [{"y"}]>, unit]
  } : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
  return
}
