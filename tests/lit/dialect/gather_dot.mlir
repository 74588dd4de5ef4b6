// RUN: dtensor-opt %s | dtensor-opt | filecheck %s

// CHECK-LABEL: func.func @main
func.func @main(%t: tensor<9x4xbf16>, %i: tensor<3x5xi32>, %w: tensor<3x5xf32>) -> tensor<3x4xf32> {
  // CHECK: "dtensor.gather_dot"(%{{.*}}, %{{.*}}, %{{.*}}) {dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, slice_sizes = array<i64: 1, 4>} : (tensor<9x4xbf16>, tensor<3x5xi32>, tensor<3x5xf32>) -> tensor<3x4xf32>
  %0 = "dtensor.gather_dot"(%t, %i, %w) {
    dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>,
    slice_sizes = array<i64: 1, 4>,
    dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>
  } : (tensor<9x4xbf16>, tensor<3x5xi32>, tensor<3x5xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}
