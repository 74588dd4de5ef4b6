// RUN: dtensor-opt %s --dtensor-print-rules 2>&1 | filecheck %s

// The vocabulary of a lookup can be split over its owners: those who do not own the element add
// zero. What windows hold whole, and what the indices have, passes.

func.func @lookup(%table: tensor<12x4xf32>, %tokens: tensor<2x3x1xi32>) -> tensor<2x3x4xf32> {
  // CHECK: remark: stablehlo.gather: [d, c], [a, b, *] -> [a, b, c] reduce {d: sum}; passes sum, _ -> sum | max, _ -> max | min, _ -> min | prod, _ -> prod;
  // CHECK-SAME: dimension 2 of operand 1 holds the components of one index
  %0 = "stablehlo.gather"(%table, %tokens) <{
    dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>,
    slice_sizes = array<i64: 1, 4>}> : (tensor<12x4xf32>, tensor<2x3x1xi32>) -> tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}

func.func @lookup_of_booleans(%table: tensor<12xi1>, %at: tensor<5x1xi32>) -> tensor<5xi1> {
  // CHECK: remark: stablehlo.gather: [b], [a, *] -> [a] reduce {b: or}; passes and, _ -> and | or, _ -> or;
  %0 = "stablehlo.gather"(%table, %at) <{
    dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1>}> : (tensor<12xi1>, tensor<5x1xi32>) -> tensor<5xi1>
  return %0 : tensor<5xi1>
}

// One logit per row: rows walk together, the classes have owners.
func.func @take_along_axis(%logits: tensor<2x12xf32>, %labels: tensor<2x1xi32>) -> tensor<2xf32> {
  // CHECK: remark: stablehlo.gather: [a, b], [a, *] -> [a] reduce {b: sum}
  %0 = "stablehlo.gather"(%logits, %labels) <{
    dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 1>,
    slice_sizes = array<i64: 1, 1>}> : (tensor<2x12xf32>, tensor<2x1xi32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

func.func @windows(%a: tensor<12x4xf32>, %at: tensor<5x1xi32>) -> tensor<5x3x4xf32> {
  // CHECK: remark: stablehlo.gather: [c, b], [a, *] -> [a, *, b] reduce {c: sum};
  // CHECK-SAME: dimension 1 of result 0 is a window of some elements, which may lie across two shards
  %0 = "stablehlo.gather"(%a, %at) <{
    dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 3, 4>}> : (tensor<12x4xf32>, tensor<5x1xi32>) -> tensor<5x3x4xf32>
  return %0 : tensor<5x3x4xf32>
}

// The gradient of a lookup: shards of the vocabulary take their own updates, shards of the updates
// make parts of the sum.
func.func @accumulate(%table: tensor<12x4xf32>, %at: tensor<5x1xi32>, %new: tensor<5x4xf32>) -> tensor<12x4xf32> {
  // CHECK: remark: stablehlo.scatter: [c, b], [a, *], [a, b] -> [c, b] reduce {a: sum}; passes sum, _, sum -> sum;
  %0 = "stablehlo.scatter"(%table, %at, %new) <{
    scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<12x4xf32>, tensor<5x1xi32>, tensor<5x4xf32>) -> tensor<12x4xf32>
  return %0 : tensor<12x4xf32>
}

// Of two updates to one element the last stays, and shards of the updates could not tell which.
func.func @overwrite(%table: tensor<12x4xf32>, %at: tensor<5x1xi32>, %new: tensor<5x4xf32>) -> tensor<12x4xf32> {
  // CHECK: remark: stablehlo.scatter: [b, a], [*, *], [*, a] -> [b, a]; dimension 0 of operand 1 has updates that overwrite; which one is the last, only all of them tell
  %0 = "stablehlo.scatter"(%table, %at, %new) <{
    scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %y : tensor<f32>
  }) : (tensor<12x4xf32>, tensor<5x1xi32>, tensor<5x4xf32>) -> tensor<12x4xf32>
  return %0 : tensor<12x4xf32>
}

func.func @lookup_of_eight_bits(%table: tensor<12xf8E4M3FNUZ>, %at: tensor<5x1xi32>) -> tensor<5xf8E4M3FNUZ> {
  // CHECK: remark: stablehlo.gather: [*], [a, *] -> [a];
  // CHECK-SAME: shards of f8E4M3FNUZ cannot be added
  %0 = "stablehlo.gather"(%table, %at) <{
    dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1>}> : (tensor<12xf8E4M3FNUZ>, tensor<5x1xi32>) -> tensor<5xf8E4M3FNUZ>
  return %0 : tensor<5xf8E4M3FNUZ>
}
