// RUN: dtensor-opt %s --dtensor-expand | filecheck %s

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// Each shard looks up in its own rows: the index is clamped to the whole table, then counted from
// the shard's first row; what the shard does not have is zero.

// CHECK-LABEL: func.func @lookup
// CHECK-SAME: (%[[TABLE:.*]]: tensor<3x5xf32> {{.*}}, %[[TOKENS:.*]]: tensor<3x1xi32>
func.func @lookup(%table: tensor<12x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}, %tokens: tensor<6x1xi32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
    -> (tensor<6x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}], partial = {sum: "y"}>}) {
  // CHECK: %[[COLUMN:.*]] = stablehlo.reshape %[[TOKENS]] : (tensor<3x1xi32>) -> tensor<3xi32>
  // CHECK-DAG: %[[FIRST:.*]] = stablehlo.constant dense<0> : tensor<i32>
  // CHECK-DAG: %[[LAST:.*]] = stablehlo.constant dense<11> : tensor<i32>
  // CHECK: %[[CLAMPED:.*]] = stablehlo.clamp %[[FIRST]], %[[COLUMN]], %[[LAST]]
  // CHECK: %[[SHARD:.*]] = "dtensor.axis_index"() {axes = #dtensor.axes<@mesh, ["y"]>}
  // CHECK: %[[LOCAL:.*]] = stablehlo.subtract %[[CLAMPED]]
  // CHECK: %[[MINE:.*]] = stablehlo.and
  // CHECK: %[[AT:.*]] = stablehlo.reshape %[[LOCAL]] : (tensor<3xi32>) -> tensor<3x1xi32>
  // CHECK: %[[ROWS:.*]] = "stablehlo.gather"(%[[TABLE]], %[[AT]])
  // CHECK-SAME: slice_sizes = array<i64: 1, 5>
  // CHECK-SAME: -> tensor<3x5xf32>
  // CHECK: %[[MASK:.*]] = stablehlo.broadcast_in_dim %[[MINE]], dims = [0] : (tensor<3xi1>) -> tensor<3x5xi1>
  // CHECK: %[[ZERO:.*]] = stablehlo.constant dense<-0.000000e+00> : tensor<3x5xf32>
  // CHECK: stablehlo.select %[[MASK]], %[[ROWS]], %[[ZERO]]
  %0 = "stablehlo.gather"(%table, %tokens) {
    dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1, 5>, dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}], partial = {sum: "y"}>]} : (tensor<12x5xf32>, tensor<6x1xi32>) -> tensor<6x5xf32>
  return %0 : tensor<6x5xf32>
}

// A split width needs no more than local slices.
// CHECK-LABEL: func.func @split_width
func.func @split_width(%table: tensor<12x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>}, %tokens: tensor<6x1xi32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>})
    -> (tensor<6x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>}) {
  // CHECK-NEXT: "stablehlo.gather"
  // CHECK-SAME: slice_sizes = array<i64: 1, 2>
  // CHECK-SAME: (tensor<12x2xf32>, tensor<6x1xi32>) -> tensor<6x2xf32>
  // CHECK-NEXT: return
  %0 = "stablehlo.gather"(%table, %tokens) {
    dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1, 8>, dtensor.results = [#dtensor.layout<@mesh, [{}, {"y"}]>]} : (tensor<12x8xf32>, tensor<6x1xi32>) -> tensor<6x8xf32>
  return %0 : tensor<6x8xf32>
}

// Counted from a shard's first row, the rows of others are out of range, and scatter drops them.
// CHECK-LABEL: func.func @accumulate
// CHECK-SAME: (%[[TABLE:.*]]: tensor<3x5xf32> {{.*}}, %[[AT:.*]]: tensor<6x1xi32> {{.*}}, %[[NEW:.*]]: tensor<6x5xf32>
func.func @accumulate(%table: tensor<12x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}, %at: tensor<6x1xi32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}, %new: tensor<6x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>})
    -> (tensor<12x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}) {
  // CHECK: %[[COLUMN:.*]] = stablehlo.reshape %[[AT]]
  // CHECK: "dtensor.axis_index"() {axes = #dtensor.axes<@mesh, ["y"]>}
  // CHECK: %[[LOCAL:.*]] = stablehlo.subtract %[[COLUMN]]
  // CHECK-NOT: stablehlo.select
  // CHECK: %[[VECTORS:.*]] = stablehlo.reshape %[[LOCAL]] : (tensor<6xi32>) -> tensor<6x1xi32>
  // CHECK: "stablehlo.scatter"(%[[TABLE]], %[[VECTORS]], %[[NEW]])
  // CHECK-SAME: indices_are_sorted = true
  // CHECK: -> tensor<3x5xf32>
  %0 = "stablehlo.scatter"(%table, %at, %new) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>,
    dtensor.results = [#dtensor.layout<@mesh, [{"y"}, {}]>]} : (tensor<12x5xf32>, tensor<6x1xi32>, tensor<6x5xf32>) -> tensor<12x5xf32>
  return %0 : tensor<12x5xf32>
}

// Of rows in blocks the distance means nothing; what is not here is put out of range, and the
// indices are no longer in order.
// CHECK-LABEL: func.func @accumulate_in_blocks
func.func @accumulate_in_blocks(%zero: tensor<12x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}, %at: tensor<6x1xi32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}, %new: tensor<6x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>})
    -> (tensor<12x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  %table = "dtensor.relayout"(%zero) {layout = #dtensor.layout<@mesh, [{3, "y"}, {}]>} : (tensor<12x5xf32>) -> tensor<12x5xf32>
  // CHECK: %[[OUTSIDE:.*]] = stablehlo.constant dense<-1> : tensor<6xi32>
  // CHECK: stablehlo.select %{{.*}}, %{{.*}}, %[[OUTSIDE]] : tensor<6xi1>, tensor<6xi32>
  // CHECK: "stablehlo.scatter"
  // CHECK-SAME: indices_are_sorted = false
  // CHECK-SAME: unique_indices = false
  %0 = "stablehlo.scatter"(%table, %at, %new) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {indices_are_sorted = true, unique_indices = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>,
    dtensor.results = [#dtensor.layout<@mesh, [{3, "y"}, {}]>]} : (tensor<12x5xf32>, tensor<6x1xi32>, tensor<6x5xf32>) -> tensor<12x5xf32>
  %1 = "dtensor.relayout"(%0) {layout = #dtensor.layout<@mesh, [{}, {}]>} : (tensor<12x5xf32>) -> tensor<12x5xf32>
  return %1 : tensor<12x5xf32>
}
