// RUN: dtensor-opt %s --dtensor-import | filecheck %s --check-prefix=IMPORT
// RUN: dtensor-opt %s --dtensor-import --dtensor-propagate --dtensor-verify-plan --dtensor-insert-relayouts --dtensor-verify-plan | filecheck %s --check-prefix=PLAN
// RUN: dtensor-opt %s --dtensor-import --dtensor-propagate --dtensor-insert-relayouts --dtensor-expand | filecheck %s
// RUN: dtensor-opt %s --dtensor-import --dtensor-propagate | dtensor-opt --dtensor-insert-relayouts --dtensor-expand | filecheck %s

// A region that is manual over x leaves y to the planner: what y splits outside stays split inside,
// behind what x splits; the contraction over y is summed behind the sum that the user wrote over x.

sdy.mesh @mesh = <["x"=2, "y"=4]>

// IMPORT: "dtensor.manual"(%arg0, %arg1) ({
// IMPORT-NEXT: ^bb0(%arg2: tensor<4x12xf32>, %arg3: tensor<12x6xf32>):
// IMPORT-NEXT: stablehlo.tanh
// IMPORT-NEXT: stablehlo.dot_general
// IMPORT: free = ["y"], in_layouts = [#dtensor.layout<@mesh, [{"x", ?}, {?}]>, #dtensor.layout<@mesh, [{?}, {?}]>], out_layouts = [#dtensor.layout<@mesh, [{?}, {?}]>]

// PLAN: stablehlo.tanh {{.*}}dtensor.results = [#dtensor.layout<@mesh, [{}, {"y"}]>]} : tensor<4x12xf32>
// PLAN: stablehlo.dot_general {{.*}}partial = {sum: "y"}
// PLAN: "stablehlo.all_reduce"
// PLAN: partial = {sum: "y"}
// PLAN: "dtensor.relayout"
// PLAN: dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {"y"}]>, #dtensor.layout<@mesh, [{"y"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>], free = ["y"]

// CHECK-NOT: dtensor.manual
// CHECK: %[[TANH:.*]] = stablehlo.tanh %arg0 : tensor<4x3xf32>
// CHECK: %[[DOT:.*]] = stablehlo.dot_general %[[TANH]], %arg1, {{.*}} -> tensor<4x6xf32>
// CHECK: %[[OVER_X:.*]] = "stablehlo.all_reduce"(%[[DOT]])
// CHECK-SAME: replica_groups = dense<{{\[}}[0, 4], [1, 5], [2, 6], [3, 7]]>
// CHECK: %[[OVER_Y:.*]] = "dtensor.all_reduce"(%[[OVER_X]]) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"}
// CHECK: return %[[OVER_Y]] : tensor<4x6xf32>
func.func @main(%a: tensor<8x12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, %w: tensor<12x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) -> tensor<4x6xf32> {
  %0 = sdy.manual_computation(%a, %w) in_shardings=[<@mesh, [{"x", ?}, {?}]>, <@mesh, [{?}, {?}]>] out_shardings=[<@mesh, [{?}, {?}]>] manual_axes={"x"} (%b: tensor<4x12xf32>, %v: tensor<12x6xf32>) {
    %1 = stablehlo.tanh %b : tensor<4x12xf32>
    %2 = sdy.sharding_constraint %1 <@mesh, [{?}, {?}]> : tensor<4x12xf32>
    %3 = stablehlo.dot_general %2, %v, contracting_dims = [1] x [0] : (tensor<4x12xf32>, tensor<12x6xf32>) -> tensor<4x6xf32>
    %4 = "stablehlo.all_reduce"(%3) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>, use_global_device_ids}> ({
    ^bb0(%c: tensor<f32>, %d: tensor<f32>):
      %5 = stablehlo.add %c, %d : tensor<f32>
      %6 = sdy.sharding_constraint %5 <@mesh, []> : tensor<f32>
      stablehlo.return %6 : tensor<f32>
    }) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    sdy.return %4 : tensor<4x6xf32>
  } : (tensor<8x12xf32>, tensor<12x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
