// RUN: dtensor-opt %s --mesh x=2,y=4 --split-input-file --dtensor-import --dtensor-propagate --dtensor-insert-relayouts | filecheck %s

// What can be made in any layout for nothing is made again, and never moved.

// CHECK-LABEL: func.func @a_broadcast_scalar_is_made_twice
func.func @a_broadcast_scalar_is_made_twice(%a: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %b: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>}, %s: tensor<f32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  // CHECK-NOT: dtensor.relayout
  // CHECK: %[[ROWS:.*]] = stablehlo.broadcast_in_dim %arg2, dims = [] {dtensor.algorithm = "local", dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]}
  // CHECK: %[[COLUMNS:.*]] = stablehlo.broadcast_in_dim %arg2, dims = [] {dtensor.algorithm = "local", dtensor.results = [#dtensor.layout<@mesh, [{}, {"y"}]>]}
  %0 = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<8x16xf32>
  // CHECK: stablehlo.add %arg0, %[[ROWS]]
  %1 = stablehlo.add %a, %0 : tensor<8x16xf32>
  // CHECK: stablehlo.add %arg1, %[[COLUMNS]]
  %2 = stablehlo.add %b, %0 : tensor<8x16xf32>
  return %1, %2 : tensor<8x16xf32>, tensor<8x16xf32>
}

// -----

// CHECK-LABEL: func.func @a_constant_is_made_once_per_layout
func.func @a_constant_is_made_once_per_layout(%a: tensor<4x2xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}, %b: tensor<4x2xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}, %c: tensor<4x2xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>})
    -> (tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>) {
  // CHECK: %[[ROWS:.*]] = stablehlo.constant {dtensor.algorithm = "local", dtensor.results = [#dtensor.layout<@mesh, [{"y"}, {}]>]} dense<
  // CHECK: %[[COLUMNS:.*]] = stablehlo.constant {dtensor.algorithm = "local", dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}]>]} dense<
  // CHECK-NOT: stablehlo.constant
  %0 = stablehlo.constant dense<[[1., 2.], [3., 4.], [5., 6.], [7., 8.]]> : tensor<4x2xf32>
  // CHECK: stablehlo.add %arg0, %[[ROWS]]
  %1 = stablehlo.add %a, %0 : tensor<4x2xf32>
  // CHECK: stablehlo.add %arg1, %[[COLUMNS]]
  %2 = stablehlo.add %b, %0 : tensor<4x2xf32>
  // CHECK: stablehlo.add %arg2, %[[ROWS]]
  %3 = stablehlo.add %c, %0 : tensor<4x2xf32>
  return %1, %2, %3 : tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32>
}

// -----

// As parts of a sum it counts once: a clone, and a relayout that keeps it on one shard.
// CHECK-LABEL: func.func @an_initial_value_is_kept_on_one_shard
func.func @an_initial_value_is_kept_on_one_shard(%a: tensor<64xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) -> (tensor<f32>, tensor<f32>) {
  %init = stablehlo.constant dense<3.0> : tensor<f32>
  // CHECK: %[[C:.*]] = stablehlo.constant {dtensor.algorithm = "local", dtensor.results = [#dtensor.layout<@mesh, []>]} dense<3.0
  // CHECK: %[[CLONE:.*]] = stablehlo.constant {dtensor.algorithm = "local", dtensor.results = [#dtensor.layout<@mesh, []>]} dense<3.0
  // CHECK: %[[PART:.*]] = "dtensor.relayout"(%[[CLONE]]) {dtensor.results = [#dtensor.layout<@mesh, [], partial = {sum: "x"}>]
  // CHECK: %[[S:.*]] = stablehlo.reduce(%arg0 init: %[[PART]])
  %0 = stablehlo.reduce(%a init: %init) applies stablehlo.add across dimensions = [0] : (tensor<64xf32>, tensor<f32>) -> tensor<f32>
  // CHECK: %[[W:.*]] = "dtensor.relayout"(%[[S]]) {dtensor.results = [#dtensor.layout<@mesh, []>]
  // CHECK: return %[[W]], %[[C]]
  return %0, %init : tensor<f32>, tensor<f32>
}
