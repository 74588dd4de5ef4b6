// RUN: dtensor-opt %s --split-input-file --dtensor-find-forms | filecheck %s

// What StableHLO says in other operations too is said in those.

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<2x4x3x7xf32>, %b: tensor<2x3x5xf32>) -> tensor<5x2x4xf32> {
  // CHECK: %[[SUM:.*]] = stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.add across dimensions = [3] : (tensor<2x4x3x7xf32>, tensor<f32>) -> tensor<2x4x3xf32>
  // CHECK: %[[DOT:.*]] = stablehlo.dot_general %[[SUM]], %arg1, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x4x3xf32>, tensor<2x3x5xf32>) -> tensor<2x4x5xf32>
  // CHECK: stablehlo.transpose %[[DOT]], dims = [2, 0, 1]
  %0 = stablehlo.einsum %a, %b, config = "bijs,bjk->kbi" : (tensor<2x4x3x7xf32>, tensor<2x3x5xf32>) -> tensor<5x2x4xf32>
  return %0 : tensor<5x2x4xf32>
}

// -----

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<2x6x4x3xf32>, %b: tensor<6x3xf32>) -> tensor<2x6x4xf32> {
  // CHECK: stablehlo.dot_general %arg0, %arg1, batching_dims = [1] x [0], contracting_dims = [3] x [1] : (tensor<2x6x4x3xf32>, tensor<6x3xf32>) -> tensor<6x2x4xf32>
  // CHECK: stablehlo.transpose %{{.*}}, dims = [1, 0, 2]
  %0 = stablehlo.einsum %a, %b, config = "...ij,...j->...i" : (tensor<2x6x4x3xf32>, tensor<6x3xf32>) -> tensor<2x6x4xf32>
  return %0 : tensor<2x6x4xf32>
}

// -----

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<2x3x4xf32>, %d: tensor<3x3xf32>) -> (tensor<4x2xf32>, tensor<3xf32>) {
  // CHECK: %[[SUM:.*]] = stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.add across dimensions = [1]
  // CHECK: stablehlo.transpose %[[SUM]], dims = [1, 0]
  %0 = "stablehlo.unary_einsum"(%a) {einsum_config = "ijk->ki"} : (tensor<2x3x4xf32>) -> tensor<4x2xf32>
  // One that takes a diagonal stays.
  // CHECK: stablehlo.unary_einsum
  %1 = "stablehlo.unary_einsum"(%d) {einsum_config = "ii->i"} : (tensor<3x3xf32>) -> tensor<3xf32>
  return %0, %1 : tensor<4x2xf32>, tensor<3xf32>
}

// -----

// CHECK-LABEL: func.func @main
func.func @main(%t: tensor<2x5x9x3xf32>, %i: tensor<2x7xi32>) -> tensor<2x5x7x3xf32> {
  // CHECK: %[[PLACES:.*]] = stablehlo.reshape %arg1 : (tensor<2x7xi32>) -> tensor<2x7x1xi32>
  // CHECK: "stablehlo.gather"(%arg0, %[[PLACES]]) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 3], collapsed_slice_dims = [2], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [2], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 5, 1, 3>}>
  %0 = "stablehlo.torch_index_select"(%t, %i) {dim = 2 : i64, batch_dims = 1 : i64} : (tensor<2x5x9x3xf32>, tensor<2x7xi32>) -> tensor<2x5x7x3xf32>
  return %0 : tensor<2x5x7x3xf32>
}

// -----

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<2x3x4xbf16>, %f: tensor<3xbf16>) -> tensor<3xbf16> {
  // CHECK: %[[WIDE:.*]] = stablehlo.convert %arg0 : (tensor<2x3x4xbf16>) -> tensor<2x3x4xf32>
  // CHECK: %[[ROWS:.*]] = stablehlo.reduce(%[[WIDE]] init: %{{.*}}) applies stablehlo.add across dimensions = [2]
  // CHECK: %[[SUM:.*]] = stablehlo.reduce(%[[ROWS]] init: %{{.*}}) applies stablehlo.add across dimensions = [0]
  // CHECK: %[[COUNT:.*]] = stablehlo.constant dense<8.000000e+00> : tensor<3xf32>
  // CHECK: %[[MEAN:.*]] = stablehlo.divide %[[SUM]], %[[COUNT]]
  // CHECK: stablehlo.broadcast_in_dim %[[MEAN]], dims = [1]
  // CHECK-NOT: batch_norm
  %0:3 = "stablehlo.batch_norm_training"(%a, %f, %f) <{epsilon = 0.01 : f32, feature_index = 1 : i64}> : (tensor<2x3x4xbf16>, tensor<3xbf16>, tensor<3xbf16>) -> (tensor<2x3x4xbf16>, tensor<3xbf16>, tensor<3xbf16>)
  return %0#2 : tensor<3xbf16>
}
