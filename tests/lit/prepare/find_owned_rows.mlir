// RUN: dtensor-opt %s --split-input-file -p dtensor-import,dtensor-find-forms | filecheck %s

// The largest of 5 rows each, of a table of 7 rows in two shards: each picks 5 of its own 4.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK: %[[INDEX:.*]] = stablehlo.subtract %{{.*}}, %{{.*}} : tensor<2x3x5xi32>
// CHECK: stablehlo.compare GE, %[[INDEX]]
// CHECK: %[[MINE:.*]] = stablehlo.and %{{.*}} : tensor<2x3x5xi1>
// CHECK: %[[LONG:.*]] = stablehlo.pad %arg0, {{.*}} high = [1, 0]
// CHECK: %[[SHARDS:.*]] = stablehlo.reshape %[[LONG]] : (tensor<8x6xf32>) -> tensor<2x4x6xf32>
// CHECK: %[[ROWS:.*]] = "stablehlo.gather"(%[[SHARDS]], %[[INDEX]])
// CHECK-SAME: operand_batching_dims = [0], start_indices_batching_dims = [0]
// CHECK-SAME: -> tensor<2x3x5x6xf32>
// CHECK: %[[DONE:.*]] = stablehlo.exponential %[[ROWS]]
// CHECK: %[[MASK:.*]] = stablehlo.broadcast_in_dim %[[MINE]], dims = [0, 1, 2] : (tensor<2x3x5xi1>) -> tensor<2x3x5x6xi1>
// CHECK: %[[NONE:.*]] = stablehlo.constant dense<0xFF800000>
// CHECK: %[[OWN:.*]] = stablehlo.select %[[MASK]], %[[DONE]], %[[NONE]]
// CHECK: stablehlo.reduce(%[[OWN]] init: %{{.*}}) applies stablehlo.maximum across dimensions = [0, 2]
func.func @main(%table: tensor<7x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %ids: tensor<3x5xi32>) -> tensor<3x6xf32> {
  %0 = "stablehlo.gather"(%table, %ids) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 6>}> : (tensor<7x6xf32>, tensor<3x5xi32>) -> tensor<3x5x6xf32>
  %1 = stablehlo.exponential %0 : tensor<3x5x6xf32>
  %2 = stablehlo.constant dense<0.0> : tensor<f32>
  %3 = stablehlo.reduce(%1 init: %2) applies stablehlo.maximum across dimensions = [1] : (tensor<3x5x6xf32>, tensor<f32>) -> tensor<3x6xf32>
  return %3 : tensor<3x6xf32>
}

// -----

// Sums of rows are sums of parts as they stand.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK: "stablehlo.gather"(%arg0, %arg1)
func.func @main(%table: tensor<8x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %ids: tensor<3x5xi32>) -> tensor<3x6xf32> {
  %0 = "stablehlo.gather"(%table, %ids) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 6>}> : (tensor<8x6xf32>, tensor<3x5xi32>) -> tensor<3x5x6xf32>
  %1 = stablehlo.negate %0 : tensor<3x5x6xf32>
  %2 = stablehlo.constant dense<0.0> : tensor<f32>
  %3 = stablehlo.reduce(%1 init: %2) applies stablehlo.add across dimensions = [1] : (tensor<3x5x6xf32>, tensor<f32>) -> tensor<3x6xf32>
  return %3 : tensor<3x6xf32>
}

// -----

// Rows that a matrix multiplies are many operations each: they had better be divided.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK: "stablehlo.gather"(%arg0, %arg1)
// CHECK-SAME: -> tensor<3x5x4xf32>
// CHECK: stablehlo.dot_general
func.func @main(%table: tensor<8x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %ids: tensor<3x5xi32>, %w: tensor<4x32xf32>) -> tensor<3xf32> {
  %0 = "stablehlo.gather"(%table, %ids) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 4>}> : (tensor<8x4xf32>, tensor<3x5xi32>) -> tensor<3x5x4xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [2] x [0] : (tensor<3x5x4xf32>, tensor<4x32xf32>) -> tensor<3x5x32xf32>
  %2 = stablehlo.constant dense<0.0> : tensor<f32>
  %3 = stablehlo.reduce(%1 init: %2) applies stablehlo.maximum across dimensions = [1, 2] : (tensor<3x5x32xf32>, tensor<f32>) -> tensor<3xf32>
  return %3 : tensor<3xf32>
}
