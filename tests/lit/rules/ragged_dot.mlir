// RUN: dtensor-opt %s --dtensor-print-rules 2>&1 | filecheck %s

// Groups of rows: rows and columns are split as those of a product; shards of groups add up, or
// give products of their own. The sizes of the groups are whole.

func.func @main(%rows: tensor<12x6xf32>, %weights: tensor<4x6x8xf32>, %sizes: tensor<4xi32>, %columns: tensor<12x10xf32>) -> (tensor<12x8xf32>, tensor<4x6x10xf32>) {
  // CHECK: remark: chlo.ragged_dot: [b, a], [d scan, a, c], [*] -> [b, c] reduce {a: sum, d: sum}; dimension 0 of operand 2 says of all groups where they are
  %0 = "chlo.ragged_dot"(%rows, %weights, %sizes) <{precision_config = [], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<12x6xf32>, tensor<4x6x8xf32>, tensor<4xi32>) -> tensor<12x8xf32>
  // CHECK: remark: chlo.ragged_dot: [a, b], [a, c], [*] -> [d scan, b, c] reduce {a: sum}
  %1 = "chlo.ragged_dot"(%rows, %columns, %sizes) <{precision_config = [], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0], lhs_ragged_dimensions = [0]>}> : (tensor<12x6xf32>, tensor<12x10xf32>, tensor<4xi32>) -> tensor<4x6x10xf32>
  return %0, %1 : tensor<12x8xf32>, tensor<4x6x10xf32>
}

// Where each batch says its own sizes, its groups are whole.
func.func @batches(%rows: tensor<2x12x6xf32>, %weights: tensor<4x2x6x8xf32>, %sizes: tensor<2x4xi32>) -> tensor<2x12x8xf32> {
  // CHECK: remark: chlo.ragged_dot: [a, c, b], [*, a, b, d], [a, *] -> [a, c, d] reduce {b: sum}; dimension 0 of operand 1 is of groups that begin elsewhere in each batch
  %0 = "chlo.ragged_dot"(%rows, %weights, %sizes) <{precision_config = [], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [1], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [2], lhs_ragged_dimensions = [1], rhs_group_dimensions = [0]>}> : (tensor<2x12x6xf32>, tensor<4x2x6x8xf32>, tensor<2x4xi32>) -> tensor<2x12x8xf32>
  return %0 : tensor<2x12x8xf32>
}
