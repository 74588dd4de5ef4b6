// RUN: dtensor-opt %s --split-input-file --dtensor-import --dtensor-propagate --dtensor-verify-plan --dtensor-insert-relayouts --dtensor-verify-plan --dtensor-expand | filecheck %s

// A region may read what stands outside, where C++ passes put constants. It is whole in there,
// whatever splits it outside, and whether the region leaves axes to the planner or not.

// CHECK: func.func @main(%[[A:.*]]: tensor<4x3xf32>
// CHECK: %[[SIN:.*]] = stablehlo.sine %[[A]]
// CHECK: %[[Y:.*]] = "dtensor.all_gather"(%[[SIN]])
// CHECK: %[[WHOLE:.*]] = "dtensor.all_gather"(%[[Y]])
// CHECK: %[[SUM:.*]] = stablehlo.reduce(%[[WHOLE]] init:
// CHECK: %[[ROWS:.*]] = stablehlo.broadcast_in_dim %[[SUM]], dims = [] : (tensor<f32>) -> tensor<4x3xf32>
// CHECK: stablehlo.add %[[SIN]], %[[ROWS]] : tensor<4x3xf32>
"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}]>}) -> tensor<8x12xf32> {
  %0 = stablehlo.sine %a : tensor<8x12xf32>
  %1 = "dtensor.manual"(%0) ({
  ^bb0(%b: tensor<4x3xf32>):
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %sum = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x12xf32>, tensor<f32>) -> tensor<f32>
    %2 = stablehlo.broadcast_in_dim %sum, dims = [] : (tensor<f32>) -> tensor<4x3xf32>
    %3 = stablehlo.add %b, %2 : tensor<4x3xf32>
    stablehlo.return %3 : tensor<4x3xf32>
  }) {free = [], in_layouts = [#dtensor.layout<@mesh, [{"x"}, {"y"}]>], out_layouts = [#dtensor.layout<@mesh, [{"x"}, {"y"}]>]} : (tensor<8x12xf32>) -> tensor<8x12xf32>
  return %1 : tensor<8x12xf32>
}

// -----

// y stays where it is, and the sum is over its parts.

// CHECK: func.func @main(%[[A:.*]]: tensor<4x3xf32>
// CHECK: %[[SIN:.*]] = stablehlo.sine %[[A]]
// CHECK: %[[ROWS:.*]] = "dtensor.all_gather"(%[[SIN]]) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64}
// CHECK: %[[PARTS:.*]] = stablehlo.reduce(%[[ROWS]] init:
// CHECK: "dtensor.all_reduce"(%[[PARTS]]) {axes = #dtensor.axes<@mesh, ["y"]>
"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}]>}) -> tensor<8x12xf32> {
  %0 = stablehlo.sine %a : tensor<8x12xf32>
  %1 = "dtensor.manual"(%0) ({
  ^bb0(%b: tensor<4x12xf32>):
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %sum = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x12xf32>, tensor<f32>) -> tensor<f32>
    %2 = stablehlo.broadcast_in_dim %sum, dims = [] : (tensor<f32>) -> tensor<4x12xf32>
    %3 = stablehlo.add %b, %2 : tensor<4x12xf32>
    stablehlo.return %3 : tensor<4x12xf32>
  }) {free = ["y"], in_layouts = [#dtensor.layout<@mesh, [{"x", ?}, {?}]>], out_layouts = [#dtensor.layout<@mesh, [{"x", ?}, {?}]>]} : (tensor<8x12xf32>) -> tensor<8x12xf32>
  return %1 : tensor<8x12xf32>
}
