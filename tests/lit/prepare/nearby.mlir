// RUN: dtensor-opt %s --split-input-file --mesh x=2 --dtensor-import --dtensor-fuse-cuts | filecheck %s

// Two shards of 8 elements read places up to 9 and from 7 on: frames of 10, which overlap.

// CHECK-LABEL: func.func @near
// CHECK: %[[FRAMES:.*]] = stablehlo.concatenate {{.*}} -> tensor<2x{{[0-9]+}}xf32>
// CHECK: "stablehlo.gather"(%[[FRAMES]], {{.*}}operand_batching_dims = [0], start_indices_batching_dims = [0]
// CHECK-SAME: -> tensor<2x6xf32>
func.func @near(%a: tensor<32xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) -> tensor<12xf32> {
  %places = stablehlo.constant dense<[[0], [2], [3], [7], [11], [17], [15], [18], [22], [23], [29], [31]]> : tensor<12x1xi32>
  %0 = "stablehlo.gather"(%a, %places) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}> : (tensor<32xf32>, tensor<12x1xi32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// Where they are far, or nothing is split, a gather stays.

// CHECK-LABEL: func.func @others
// CHECK: "stablehlo.gather"(%arg0, %{{.*}} -> tensor<12xf32>
// CHECK: "stablehlo.gather"(%arg1, %{{.*}} -> tensor<12xf32>
func.func @others(%a: tensor<32xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}, %b: tensor<32xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}) -> (tensor<12xf32>, tensor<12xf32>) {
  %far = stablehlo.constant dense<[[0], [2], [3], [27], [11], [17], [15], [18], [22], [3], [29], [31]]> : tensor<12x1xi32>
  %near = stablehlo.constant dense<[[0], [2], [3], [7], [11], [17], [15], [18], [22], [23], [29], [31]]> : tensor<12x1xi32>
  %0 = "stablehlo.gather"(%a, %far) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}> : (tensor<32xf32>, tensor<12x1xi32>) -> tensor<12xf32>
  %1 = "stablehlo.gather"(%b, %near) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}> : (tensor<32xf32>, tensor<12x1xi32>) -> tensor<12xf32>
  return %0, %1 : tensor<12xf32>, tensor<12xf32>
}
