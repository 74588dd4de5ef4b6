// RUN: dtensor-opt %s --dtensor-print-rules 2>&1 | filecheck %s

// Batch and features are those of an einsum; space is split where the windows tile it.

func.func @images(%a: tensor<2x5x7x3xf32>, %k: tensor<3x1x3x4xf32>) -> tensor<2x5x7x4xf32> {
  // CHECK: remark: stablehlo.convolution: [a, d window, e, b], [*, *, b, c] -> [a, d window, e, c] reduce {b: sum};
  // CHECK-SAME: dimension 0 of operand 1 is a dimension of the window
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [0, 0]]}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x5x7x3xf32>, tensor<3x1x3x4xf32>) -> tensor<2x5x7x4xf32>
  return %0 : tensor<2x5x7x4xf32>
}

// Six channels, each with two results: the group is the major digit of the results.
func.func @depthwise(%a: tensor<2x5x6xf32>, %k: tensor<3x1x12xf32>) -> tensor<2x3x12xf32> {
  // CHECK: remark: stablehlo.convolution: [a, c:(1)5 window, b], [*, *, b:(1)12] -> [a, c window, b:(1)12];
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {}
      {batch_group_count = 1 : i64, feature_group_count = 6 : i64} : (tensor<2x5x6xf32>, tensor<3x1x12xf32>) -> tensor<2x3x12xf32>
  return %0 : tensor<2x3x12xf32>
}

// Three groups, each of two channels with three results: it is the major digit of both.
func.func @groups(%a: tensor<2x5x6xf32>, %k: tensor<3x2x9xf32>) -> tensor<2x3x9xf32> {
  // CHECK: remark: stablehlo.convolution: [a, c:(1)5 window, b:(1)6], [*, *, b:(1)9] -> [a, c window, b:(1)9];
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {}
      {batch_group_count = 1 : i64, feature_group_count = 3 : i64} : (tensor<2x5x6xf32>, tensor<3x2x9xf32>) -> tensor<2x3x9xf32>
  return %0 : tensor<2x3x9xf32>
}
