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
  // CHECK: %[[ZERO:.*]] = stablehlo.constant dense<-0.000000e+00> : tensor<3x5xf32>
  // CHECK: %[[MASK:.*]] = stablehlo.broadcast_in_dim %[[MINE]], dims = [0] : (tensor<3xi1>) -> tensor<3x5xi1>
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

// A window of 3 rows may lie across two shards: each shard reads those of its rows that are in it.
// It starts so that it ends inside the table, and has one index for each row.
// CHECK-LABEL: func.func @windows_of_rows
// CHECK-SAME: (%[[TABLE:.*]]: tensor<3x5xf32> {{.*}}, %[[AT:.*]]: tensor<6x1xi32>
func.func @windows_of_rows(%table: tensor<12x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}, %at: tensor<6x1xi32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>})
    -> (tensor<6x3x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {}], partial = {sum: "y"}>}) {
  // CHECK: %[[LAST:.*]] = stablehlo.constant dense<9> : tensor<i32>
  // CHECK: %[[FIRST:.*]] = stablehlo.clamp %{{.*}}, %{{.*}}, %[[LAST]]
  // CHECK: %[[FIRSTS:.*]] = stablehlo.broadcast_in_dim %[[FIRST]], dims = [0] : (tensor<6xi32>) -> tensor<6x3xi32>
  // CHECK: %[[ROW:.*]] = stablehlo.iota dim = 1 : tensor<6x3xi32>
  // CHECK: stablehlo.add %[[FIRSTS]], %[[ROW]]
  // CHECK: %[[MINE:.*]] = stablehlo.and %{{.*}}, %{{.*}} : tensor<6x3xi1>
  // CHECK: %[[ROWS:.*]] = "stablehlo.gather"(%[[TABLE]], %{{[0-9]+}})
  // CHECK-SAME: offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2
  // CHECK-SAME: slice_sizes = array<i64: 1, 5>
  // CHECK: stablehlo.broadcast_in_dim %[[MINE]], dims = [0, 1] : (tensor<6x3xi1>) -> tensor<6x3x5xi1>
  // CHECK: stablehlo.select %{{.*}}, %[[ROWS]],
  %0 = "stablehlo.gather"(%table, %at) {
    dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 3, 5>, dtensor.results = [#dtensor.layout<@mesh, [{}, {}, {}], partial = {sum: "y"}>]} : (tensor<12x5xf32>, tensor<6x1xi32>) -> tensor<6x3x5xf32>
  return %0 : tensor<6x3x5xf32>
}

// A window that is not all inside the table is written nowhere: it is put before every shard.
// CHECK-LABEL: func.func @write_windows_of_rows
// CHECK-SAME: (%[[TABLE:.*]]: tensor<3x5xf32> {{.*}}, %[[AT:.*]]: tensor<6x1xi32> {{.*}}, %[[NEW:.*]]: tensor<6x2x5xf32>
func.func @write_windows_of_rows(%table: tensor<12x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}, %at: tensor<6x1xi32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}, %new: tensor<6x2x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {}]>})
    -> (tensor<12x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}) {
  // CHECK: %[[END:.*]] = stablehlo.constant dense<11> : tensor<6xi32>
  // CHECK: stablehlo.compare LT, %{{.*}}, %[[END]]
  // CHECK: %[[BEFORE:.*]] = stablehlo.constant dense<-2> : tensor<6xi32>
  // CHECK: stablehlo.select %{{.*}}, %{{.*}}, %[[BEFORE]] : tensor<6xi1>, tensor<6xi32>
  // CHECK: "stablehlo.scatter"(%[[TABLE]], %{{[0-9]+}}, %[[NEW]])
  // CHECK-SAME: indices_are_sorted = false
  // CHECK-SAME: update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2
  // CHECK-SAME: unique_indices = false
  %0 = "stablehlo.scatter"(%table, %at, %new) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %y : tensor<f32>
  }) {indices_are_sorted = true, unique_indices = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>,
    dtensor.results = [#dtensor.layout<@mesh, [{"y"}, {}]>]} : (tensor<12x5xf32>, tensor<6x1xi32>, tensor<6x2x5xf32>) -> tensor<12x5xf32>
  return %0 : tensor<12x5xf32>
}
