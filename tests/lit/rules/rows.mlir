// RUN: dtensor-opt %s --dtensor-print-rules 2>&1 | filecheck %s

// Rows, matrices and channels that are treated each by itself.

func.func @sorting(%k: tensor<3x5xf32>, %v: tensor<3x5xi32>) -> tensor<3x2xf32> {
  // CHECK: remark: stablehlo.sort: [a, b order], [a, b order] -> [a, b order], [a, b order]{{$}}
  %0:2 = "stablehlo.sort"(%k, %v) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
    %p = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) : (tensor<3x5xf32>, tensor<3x5xi32>) -> (tensor<3x5xf32>, tensor<3x5xi32>)
  // CHECK: remark: chlo.top_k: [a, b order] -> [a, *], [a, *]{{$}}
  %values, %indices = chlo.top_k(%0#0, k = 2) : tensor<3x5xf32> -> (tensor<3x2xf32>, tensor<3x2xi32>)
  return %values : tensor<3x2xf32>
}

func.func @matrices(%a: tensor<2x3x3xf32>, %b: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  // CHECK: remark: stablehlo.cholesky: [a, *, *] -> [a, *, *]; dimension 1 of operand 0 is a dimension of the matrices
  %0 = stablehlo.cholesky %a, lower = true : tensor<2x3x3xf32>
  // CHECK: remark: stablehlo.triangular_solve: [a, *, *], [a, *, b] -> [a, *, b];
  %1 = "stablehlo.triangular_solve"(%0, %b) <{left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}> : (tensor<2x3x3xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  // CHECK: remark: stablehlo.fft: [a, b, c transform] -> [a, b, c:(1)3 transform]; passes sum -> sum{{$}}
  // CHECK: remark: stablehlo.fft: [a, b, *] -> [a, b, *]; passes sum -> sum; dimension 2 of operand 0 is transformed, of a prime length
  // CHECK: remark: dtensor.fft: [a, b, c transform] -> [a, b, c transform]; passes sum -> sum{{$}}
  %2 = stablehlo.fft %1, type = RFFT, length = [4] : (tensor<2x3x4xf32>) -> tensor<2x3x3xcomplex<f32>>
  %3 = stablehlo.fft %2, type = IFFT, length = [3] : (tensor<2x3x3xcomplex<f32>>) -> tensor<2x3x3xcomplex<f32>>
  %4 = "dtensor.fft"(%1) {fft_type = #stablehlo<fft_type RFFT>, fft_length = array<i64: 4>} : (tensor<2x3x4xf32>) -> tensor<2x3x4xcomplex<f32>>
  return %1 : tensor<2x3x4xf32>
}

func.func @search(%t: tensor<8xf32>, %q: tensor<2x3xf32>) -> tensor<2x3xui32> {
  // CHECK: remark: dtensor.search: [c], [a, b] -> [a, b] reduce {c: sum}{{$}}
  %0 = "dtensor.search"(%t, %q) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.compare LE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) {count = 8 : i64} : (tensor<8xf32>, tensor<2x3xf32>) -> tensor<2x3xui32>
  return %0 : tensor<2x3xui32>
}

func.func @ranked(%a: tensor<2x9xf32>, %k: tensor<3xi32>) -> tensor<2x3xf32> {
  // CHECK: remark: dtensor.ranked: [a, b order], [*] -> [a, *]; dimension 0 of operand 1 says which elements are wanted
  %0 = "dtensor.ranked"(%a, %k) ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %1 = stablehlo.compare LT, %p, %q, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) {dim = 1 : i64} : (tensor<2x9xf32>, tensor<3xi32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

func.func @ranked_where(%a: tensor<2x9xf32>, %k: tensor<3xi32>) -> tensor<2x3xi32> {
  // CHECK: remark: dtensor.ranked: [a, b order], [*] -> [a, *], [a, *]; dimension 0 of operand 1 says which elements are wanted
  %0:2 = "dtensor.ranked"(%a, %k) ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %1 = stablehlo.compare LT, %p, %q, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) {dim = 1 : i64} : (tensor<2x9xf32>, tensor<3xi32>) -> (tensor<2x3xf32>, tensor<2x3xi32>)
  return %0#1 : tensor<2x3xi32>
}

func.func @ranked_each(%a: tensor<2x9x4xf32>, %k: tensor<3x2x4xi32>) -> tensor<2x3x4xf32> {
  // CHECK: remark: dtensor.ranked: [a, b order, c], [*, a, c] -> [a, *, c]; dimension 0 of operand 1 says which elements are wanted
  %0 = "dtensor.ranked"(%a, %k) ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %1 = stablehlo.compare LT, %p, %q, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) {dim = 1 : i64} : (tensor<2x9x4xf32>, tensor<3x2x4xi32>) -> tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}

func.func @scan(%a: tensor<2x9xf32>) -> tensor<2x9xf32> {
  // CHECK: remark: dtensor.scan: [a, b scan] -> [a, b scan]{{$}}
  %0 = "dtensor.scan"(%a) ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %1 = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {dim = 1 : i64, reverse = 0 : i64} : (tensor<2x9xf32>) -> tensor<2x9xf32>
  return %0 : tensor<2x9xf32>
}

func.func @tall_qr(%a: tensor<6x2xf32>) -> tensor<2x2xf32> {
  // CHECK: remark: dtensor.qr: [a transform, *] -> [a transform, *], [*, *]; dimension 1 of operand 0 is made orthogonal column by column
  %0:2 = "dtensor.qr"(%a) {factor = {call_target_name = "Qr"}, product = {call_target_name = "P"}} : (tensor<6x2xf32>) -> (tensor<6x2xf32>, tensor<2x2xf32>)
  return %0#1 : tensor<2x2xf32>
}

func.func @gather_dot(%t: tensor<9x5x4xf32>, %i: tensor<2x3xi32>, %w: tensor<6x2x4xf32>) -> tensor<2x3x5x6xf32> {
  // CHECK: remark: dtensor.gather_dot: [f, c, e], [a, b], [d, a, e] -> [a, b, c, d] reduce {e: sum, f: sum}{{$}}
  %0 = "dtensor.gather_dot"(%t, %i, %w) {
    dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>,
    slice_sizes = array<i64: 1, 5, 4>,
    dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [1], lhs_contracting_dimensions = [3], rhs_contracting_dimensions = [2]>
  } : (tensor<9x5x4xf32>, tensor<2x3xi32>, tensor<6x2x4xf32>) -> tensor<2x3x5x6xf32>
  return %0 : tensor<2x3x5x6xf32>
}
