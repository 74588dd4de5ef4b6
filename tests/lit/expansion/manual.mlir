// RUN: dtensor-opt %s --dtensor-import | filecheck %s --check-prefix=IMPORT
// RUN: dtensor-opt %s --dtensor-import --dtensor-propagate --dtensor-verify-plan --dtensor-insert-relayouts --dtensor-verify-plan --dtensor-expand | filecheck %s

// A region of jax.shard_map works on shards; operands come as it wants them, and its body takes its
// place.

sdy.mesh @mesh = <["x"=2, "y"=4]>

// IMPORT: "dtensor.manual"(%arg0) ({
// IMPORT-NEXT: ^bb0(%arg1: tensor<4x3xf32>):
// IMPORT: stablehlo.all_reduce
// IMPORT-SAME: replica_groups = dense<{{\[}}[0, 4], [1, 5], [2, 6], [3, 7]]>
// IMPORT: stablehlo.return
// IMPORT: {free = [], in_layouts = [#dtensor.layout<@mesh, [{"x"}, {"y"}]>], out_layouts = [#dtensor.layout<@mesh, [{}, {"y"}]>]}

// CHECK: func.func @main(%arg0: tensor<1x12xf32>
// CHECK: %[[MOVED:.*]] = "dtensor.all_to_all"(%arg0)
// CHECK-NOT: dtensor.manual
// CHECK: %[[SUM:.*]] = "stablehlo.all_reduce"
// CHECK: %[[TANH:.*]] = stablehlo.tanh %[[SUM]] : tensor<4x3xf32>
// CHECK: return %[[TANH]]
func.func @main(%a: tensor<8x12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}, {}]>}) -> tensor<4x12xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {"y"}]>] out_shardings=[<@mesh, [{}, {"y"}]>] manual_axes={"x", "y"} (%b: tensor<4x3xf32>) {
    %1 = "stablehlo.all_reduce"(%b) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>, use_global_device_ids}> ({
    ^bb0(%c: tensor<f32>, %d: tensor<f32>):
      %2 = stablehlo.add %c, %d : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<4x3xf32>) -> tensor<4x3xf32>
    sdy.return %1 : tensor<4x3xf32>
  } : (tensor<8x12xf32>) -> tensor<4x12xf32>
  %3 = stablehlo.tanh %0 : tensor<4x12xf32>
  return %3 : tensor<4x12xf32>
}
