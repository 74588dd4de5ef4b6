// RUN: dtensor-opt %s --dtensor-print-rules 2>&1 | filecheck %s

// A dimension is split if its windows tile it, so that each shard holds whole windows; if they do
// not, by an algorithm that fetches what they read of the neighbours. Sums of all elements before one
// are a scan.

func.func @cumulative_sum(%a: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  // CHECK: remark: stablehlo.reduce_window: [a, b scan], [] -> [a, b scan]; passes sum, sum -> sum{{$}}
  %0 = "stablehlo.reduce_window"(%a, %zero) <{window_dimensions = array<i64: 1, 6>, padding = dense<[[0, 0], [5, 0]]> : tensor<2x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// A shard would meet the start more often than one device does.
func.func @cumulative_sum_from(%a: tensor<4x6xf32>, %start: tensor<f32>) -> tensor<4x6xf32> {
  // CHECK: remark: stablehlo.reduce_window: [a, *], [] -> [a, *]; passes sum, sum -> sum; dimension 1 of operand 0 is padded, and its windows start from a value that may be met once only
  %0 = "stablehlo.reduce_window"(%a, %start) <{window_dimensions = array<i64: 1, 6>, padding = dense<[[0, 0], [5, 0]]> : tensor<2x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// Of the 6 elements, three windows of two.
func.func @max_pool(%a: tensor<4x6xf32>, %s: tensor<4x3xf32>, %low: tensor<f32>) -> tensor<4x6xf32> {
  // CHECK: remark: stablehlo.reduce_window: [a, b:(1)6], [] -> [a, b]; passes max, max -> max{{$}}
  %0 = "stablehlo.reduce_window"(%a, %low) <{window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.maximum %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x3xf32>
  // CHECK: remark: stablehlo.select_and_scatter: [a, b:(1)6], [a, b], [] -> [a, b:(1)6]; passes _, sum, sum -> sum{{$}}
  %1 = "stablehlo.select_and_scatter"(%a, %s, %low) <{window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %2 = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %2 : tensor<i1>
  }, {
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %2 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }) : (tensor<4x6xf32>, tensor<4x3xf32>, tensor<f32>) -> tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}

// In the gradient of a kernel the windows of the results overlap less, one for each element of the
// kernel, whose shards' results are parts of a sum.
func.func @kernel_gradient(%a: tensor<2x16x3xf32>, %d: tensor<2x8x5xf32>) -> tensor<3x3x5xf32> {
  // CHECK: remark: stablehlo.convolution: [b, d:(1)16 window, a], [b, d window, c] -> [*, a, c] reduce {b: sum, d: sum}; dimension 0 of result 0 is a place of the window
  %0 = stablehlo.convolution(%a, %d) dim_numbers = [f, 0, b]x[i, 0, o]->[0, b, f], window = {pad = [[0, 1]], rhs_dilate = [2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x16x3xf32>, tensor<2x8x5xf32>) -> tensor<3x3x5xf32>
  return %0 : tensor<3x3x5xf32>
}

// So they do where the layer is of patches, which the windows of the results are too, though the
// result is the longer one; and in the layer those of the kernel, though the kernel is the longer one.
func.func @patches(%a: tensor<2x64x3xf32>, %k: tensor<16x3x5xf32>, %d: tensor<2x4x5xf32>) -> (tensor<2x4x5xf32>, tensor<16x3x5xf32>) {
  // CHECK: remark: stablehlo.convolution: [a, d:(1)64, b], [*, b, c] -> [a, d, c] reduce {b: sum}; dimension 0 of operand 1 is a dimension of the window
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [16]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x64x3xf32>, tensor<16x3x5xf32>) -> tensor<2x4x5xf32>
  // CHECK: remark: stablehlo.convolution: [b, d:(1)64, a], [b, d, c] -> [*, a, c] reduce {b: sum, d: sum}; dimension 0 of result 0 is a place of the window
  %1 = stablehlo.convolution(%a, %d) dim_numbers = [f, 0, b]x[i, 0, o]->[0, b, f], window = {rhs_dilate = [16]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x64x3xf32>, tensor<2x4x5xf32>) -> tensor<16x3x5xf32>
  return %0, %1 : tensor<2x4x5xf32>, tensor<16x3x5xf32>
}
