// RUN: dtensor-opt %s --dtensor-import --dtensor-print-rules -o /dev/null 2>&1 | filecheck %s

// Collectives that a user wrote over manual axes, seen by those that are left: pieces of a dimension
// are put together or cut, and each is split. Sums pass parts of a sum; what only moves, all parts.

sdy.mesh @mesh = <["x"=2, "y"=2]>

func.func @main(%a: tensor<8x6xf32>) -> tensor<8x6xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x", ?}, {?}]>] out_shardings=[<@mesh, [{"x", ?}, {?}]>] manual_axes={"x"} (%b: tensor<4x6xf32>) {
    // CHECK: stablehlo.all_reduce: [a, b] -> [a, b]; passes max -> max{{$}}
    %1 = "stablehlo.all_reduce"(%b) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%c: tensor<f32>, %d: tensor<f32>):
      %7 = stablehlo.maximum %c, %d : tensor<f32>
      stablehlo.return %7 : tensor<f32>
    }) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    // CHECK: stablehlo.all_gather: [a, b] -> [a, 2 b]; passes sum -> sum
    %2 = "stablehlo.all_gather"(%1) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x6xf32>) -> tensor<4x12xf32>
    // CHECK: stablehlo.reduce_scatter: [2 a, b] -> [a, b]; passes sum -> sum{{$}}
    %3 = "stablehlo.reduce_scatter"(%2) <{scatter_dimension = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%c: tensor<f32>, %d: tensor<f32>):
      %7 = stablehlo.add %c, %d : tensor<f32>
      stablehlo.return %7 : tensor<f32>
    }) : (tensor<4x12xf32>) -> tensor<2x12xf32>
    // CHECK: stablehlo.all_to_all: [a, 2 b] -> [2 a, b]; passes sum -> sum
    %4 = "stablehlo.all_to_all"(%3) <{split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>}> : (tensor<2x12xf32>) -> tensor<4x6xf32>
    // CHECK: stablehlo.all_to_all: [a, 2 b] -> [a, 2 b]; passes sum -> sum
    %5 = "stablehlo.all_to_all"(%4) <{split_dimension = 1 : i64, concat_dimension = 1 : i64, split_count = 2 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>}> : (tensor<4x6xf32>) -> tensor<4x6xf32>
    // CHECK: stablehlo.collective_permute: [a, b] -> [a, b]; passes sum -> sum
    %6 = "stablehlo.collective_permute"(%5) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 2], [2, 0], [1, 3], [3, 1]]> : tensor<4x2xi64>}> : (tensor<4x6xf32>) -> tensor<4x6xf32>
    sdy.return %6 : tensor<4x6xf32>
  } : (tensor<8x6xf32>) -> tensor<8x6xf32>
  return %0 : tensor<8x6xf32>
}
