// RUN: dtensor-opt %s --verify-diagnostics

func.func @main(%t: tensor<9x4xf32>, %i: tensor<3x5xi32>, %w: tensor<3x5xf32>) {
  // expected-error @below {{inferred shape '[3, 4]' is incompatible with return type of operation 'tensor<3x5xf32>'}}
  %0 = "dtensor.gather_dot"(%t, %i, %w) {
    dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>,
    slice_sizes = array<i64: 1, 4>,
    dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>
  } : (tensor<9x4xf32>, tensor<3x5xi32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  // expected-error @below {{contracting dimension sizes must match for lhs/rhs}}
  %1 = "dtensor.gather_dot"(%t, %i, %w) {
    dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>,
    slice_sizes = array<i64: 1, 4>,
    dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [1]>
  } : (tensor<9x4xf32>, tensor<3x5xi32>, tensor<3x5xf32>) -> tensor<5x4x3xf32>
  // expected-error @below {{windows hold 2 of the 9 elements of dimension 0; give one or all}}
  %2 = "dtensor.gather_dot"(%t, %i, %w) {
    dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>,
    slice_sizes = array<i64: 2, 4>,
    dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>
  } : (tensor<9x4xf32>, tensor<3x5xi32>, tensor<3x5xf32>) -> tensor<5x4x5xf32>
  // expected-error @below {{should be <= 1, but got 4}}
  %4 = "dtensor.gather_dot"(%t, %i, %w) {
    dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], start_index_map = [0], index_vector_dim = 2>,
    slice_sizes = array<i64: 1, 4>,
    dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0]>
  } : (tensor<9x4xf32>, tensor<3x5xi32>, tensor<3x5xf32>) -> tensor<5x1x5xf32>
  // expected-error @below {{attribute 'dot_dimension_numbers' must be numbers such as #stablehlo.dot<...>, found 1 : i64}}
  %3 = "dtensor.gather_dot"(%t, %i, %w) {
    dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>,
    slice_sizes = array<i64: 1, 4>,
    dot_dimension_numbers = 1 : i64
  } : (tensor<9x4xf32>, tensor<3x5xi32>, tensor<3x5xf32>) -> tensor<5x4x5xf32>
  return
}
