// RUN: dtensor-opt %s --dtensor-expand | filecheck %s

// Each shard's triangle, packed, is gathered; the signs of all columns are the first shard's.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<12x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
    -> (tensor<12x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, tensor<4x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  // CHECK: %[[MINE:.*]]:2 = stablehlo.custom_call @Qr(%arg0) : (tensor<6x4xf32>) -> (tensor<6x4xf32>, tensor<4xf32>)
  // CHECK: %[[Q:.*]] = stablehlo.custom_call @P(%[[MINE]]#0, %[[MINE]]#1) : (tensor<6x4xf32>, tensor<4xf32>) -> tensor<6x4xf32>
  // CHECK: %[[PACKED:.*]] = stablehlo.reshape %{{.*}} : (tensor<2x5xf32>) -> tensor<1x2x5xf32>
  // CHECK: %[[ALL:.*]] = "dtensor.all_gather"(%[[PACKED]]) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64} : (tensor<1x2x5xf32>) -> tensor<2x2x5xf32>
  // CHECK: %[[STACKED:.*]] = stablehlo.reshape %{{.*}} : (tensor<2x4x4xf32>) -> tensor<8x4xf32>
  // CHECK: stablehlo.custom_call @Qr(%[[STACKED]]) : (tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>)
  // CHECK: %[[BLOCK:.*]] = "dtensor.all_slice"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64} : (tensor<8x4xf32>) -> tensor<4x4xf32>
  // CHECK: %[[BOTH:.*]] = stablehlo.dot_general %[[Q]], %[[BLOCK]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<6x4xf32>, tensor<4x4xf32>) -> tensor<6x4xf32>
  // CHECK: stablehlo.while
  // CHECK: %[[SIGNS:.*]] = "dtensor.all_reduce"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["x"]>, reduction = "sum"} : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK: %[[COLUMNS:.*]] = stablehlo.broadcast_in_dim %[[SIGNS]], dims = [1] : (tensor<4xf32>) -> tensor<6x4xf32>
  // CHECK: stablehlo.multiply %[[BOTH]], %[[COLUMNS]]
  // CHECK: %[[ROWS:.*]] = stablehlo.broadcast_in_dim %[[SIGNS]], dims = [0] : (tensor<4xf32>) -> tensor<4x4xf32>
  // CHECK: stablehlo.multiply %{{.*}}, %[[ROWS]]
  %0:2 = "dtensor.qr"(%a) {factor = {call_target_name = "Qr"}, product = {call_target_name = "P"}, dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>, #dtensor.layout<@mesh, [{}, {}]>]} : (tensor<12x4xf32>) -> (tensor<12x4xf32>, tensor<4x4xf32>)
  return %0#0, %0#1 : tensor<12x4xf32>, tensor<4x4xf32>
}
