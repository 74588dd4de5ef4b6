// RUN: dtensor-opt %s --split-input-file --dtensor-expand | filecheck %s

// Where rows are summed, the other factor is zero for the rows of others, and so are those.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%t: tensor<10x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %i: tensor<3x5xi32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}, %w: tensor<5x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>})
    -> (tensor<3x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  // CHECK: %[[MINE:.*]] = stablehlo.and %{{.*}}, %{{.*}} : tensor<3x5xi1>
  // CHECK: %[[ROWS:.*]] = "stablehlo.gather"(%arg0, %{{.*}}) {{.*}} : (tensor<5x4xf32>, tensor<3x5xi32>) -> tensor<3x5x4xf32>
  // CHECK: %[[OF_ROWS:.*]] = stablehlo.broadcast_in_dim %[[MINE]], dims = [0, 1] : (tensor<3x5xi1>) -> tensor<3x5x4xi1>
  // CHECK: %[[OWN_ROWS:.*]] = stablehlo.select %[[OF_ROWS]], %[[ROWS]]
  // CHECK: %[[OF_OTHER:.*]] = stablehlo.transpose %[[MINE]], dims = [1, 0]
  // CHECK: %[[OTHER:.*]] = stablehlo.select %[[OF_OTHER]], %arg2
  // CHECK: stablehlo.dot_general %[[OWN_ROWS]], %[[OTHER]], batching_dims = [0] x [1], contracting_dims = [1] x [0]
  %0 = "dtensor.gather_dot"(%t, %i, %w) {
    dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>,
    slice_sizes = array<i64: 1, 4>,
    dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [1], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>,
    dtensor.results = [#dtensor.layout<@mesh, [{}, {}], partial = {sum: "x"}>]
  } : (tensor<10x4xf32>, tensor<3x5xi32>, tensor<5x3xf32>) -> tensor<3x4xf32>
  %1 = "dtensor.relayout"(%0) {layout = #dtensor.layout<@mesh, [{}, {}]>} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return %1 : tensor<3x4xf32>
}

// -----

// Where each row gives a result of its own, that is zero for the rows of others.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%t: tensor<10x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %i: tensor<3xi32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}, %w: tensor<3x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>})
    -> (tensor<3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}) {
  // CHECK: %[[MINE:.*]] = stablehlo.and %{{.*}}, %{{.*}} : tensor<3xi1>
  // CHECK: %[[ROWS:.*]] = "stablehlo.gather"(%arg0, %{{.*}}) {{.*}} : (tensor<5x4xf32>, tensor<3xi32>) -> tensor<3x4xf32>
  // CHECK: %[[PRODUCT:.*]] = stablehlo.dot_general %[[ROWS]], %arg2, batching_dims = [0] x [0], contracting_dims = [1] x [1]
  // CHECK: stablehlo.select %[[MINE]], %[[PRODUCT]]
  %0 = "dtensor.gather_dot"(%t, %i, %w) {
    dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1, 4>,
    dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>,
    dtensor.results = [#dtensor.layout<@mesh, [{}], partial = {sum: "x"}>]
  } : (tensor<10x4xf32>, tensor<3xi32>, tensor<3x4xf32>) -> tensor<3xf32>
  %1 = "dtensor.relayout"(%0) {layout = #dtensor.layout<@mesh, [{}]>} : (tensor<3xf32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}

// -----

// A table whose rows are whole is read and multiplied, element by element where that is all.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%t: tensor<9x4xbf16> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}, %i: tensor<3xi32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}, %w: tensor<3x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>})
    -> (tensor<3x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}) {
  // CHECK: %[[ROWS:.*]] = "stablehlo.gather"(%arg0, %arg1) {{.*}} : (tensor<9x2xbf16>, tensor<3xi32>) -> tensor<3x2xbf16>
  // CHECK: %[[WIDE:.*]] = stablehlo.convert %[[ROWS]]
  // CHECK: %[[PRODUCT:.*]] = stablehlo.multiply %[[WIDE]], %arg2 : tensor<3x2xf32>
  // CHECK-NEXT: return %[[PRODUCT]]
  %0 = "dtensor.gather_dot"(%t, %i, %w) {
    dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1, 4>,
    dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0, 1], rhs_batching_dimensions = [0, 1]>,
    dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}]>]
  } : (tensor<9x4xbf16>, tensor<3xi32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}
