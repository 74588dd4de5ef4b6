// RUN: dtensor-opt %s --dtensor-print-rules 2>&1 | filecheck %s

// XLA knows these calls by name, and JAX says nothing about their dimensions.

func.func private @comparator(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<i1> {
  %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}

func.func @main(%a: tensor<2x3x8xf32>, %i: tensor<2x3x8xi32>, %f: tensor<f32>, %n: tensor<i32>, %m: tensor<2x4x5x5xf32>, %t: tensor<2x4x5xf32>) {
  // CHECK: remark: stablehlo.custom_call: [a, *, b], [a, *, b], [], [] -> [a, *, b], [a, *, b];
  %0:2 = stablehlo.custom_call @ApproxTopK(%a, %i, %f, %n) {called_computations = [@comparator], mhlo.backend_config = {aggregate_to_topk = true, is_fallback = true, recall_target = 0.9 : f32, reduction_dim = 1 : i64, reduction_input_size_override = -1 : i64, top_k = 2 : i64}} : (tensor<2x3x8xf32>, tensor<2x3x8xi32>, tensor<f32>, tensor<i32>) -> (tensor<2x2x8xf32>, tensor<2x2x8xi32>)
  // Without its configuration nobody knows which dimension is searched.
  // CHECK: remark: stablehlo.custom_call: no rule
  %1:2 = stablehlo.custom_call @ApproxTopK(%a, %i, %f, %n) {called_computations = [@comparator]} : (tensor<2x3x8xf32>, tensor<2x3x8xi32>, tensor<f32>, tensor<i32>) -> (tensor<2x2x8xf32>, tensor<2x2x8xi32>)
  // CHECK: remark: stablehlo.custom_call: [a, b, *] -> [a, b, *], [a, b, *];
  %2:2 = stablehlo.custom_call @mhlo.topk(%a) {mhlo.attributes = {k = 2 : i64, largest = true}, mhlo.version = 1 : i64} : (tensor<2x3x8xf32>) -> (tensor<2x3x2xf32>, tensor<2x3x2xi32>)
  // CHECK: remark: stablehlo.custom_call: [a, b, *, *] -> [a, b, *, *], [a, b, *];
  %3:2 = stablehlo.custom_call @Eigh(%m) {backend_config = "1,1,100,1e-6"} : (tensor<2x4x5x5xf32>) -> (tensor<2x4x5x5xf32>, tensor<2x4x5xf32>)
  // CHECK: remark: stablehlo.custom_call: [a, b, *, *] -> [a, b, *, *], [a, b, *];
  %4:2 = stablehlo.custom_call @Qr(%m) : (tensor<2x4x5x5xf32>) -> (tensor<2x4x5x5xf32>, tensor<2x4x5xf32>)
  // CHECK: remark: stablehlo.custom_call: [a, b, *, *], [a, b, *] -> [a, b, *, *];
  %5 = stablehlo.custom_call @ProductOfElementaryHouseholderReflectors(%m, %t) : (tensor<2x4x5x5xf32>, tensor<2x4x5xf32>) -> tensor<2x4x5x5xf32>
  // CHECK: remark: stablehlo.custom_call: [a, b, *, *] -> [a, b, *, *], [a, b, *], [a, b, *];
  %6:3 = stablehlo.custom_call @LuDecomposition(%m) : (tensor<2x4x5x5xf32>) -> (tensor<2x4x5x5xf32>, tensor<2x4x5xi32>, tensor<2x4x5xi32>)
  // CHECK: remark: stablehlo.custom_call: [a, b, c] -> [a, b, c]{{$}}
  %7 = stablehlo.custom_call @annotate_device_placement(%a) {has_side_effect = true, mhlo.frontend_attributes = {_xla_buffer_placement = "pinned_host"}} : (tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  // CHECK: remark: stablehlo.custom_call: [a, b, c] -> [a, b, c]{{$}}
  %8 = stablehlo.custom_call @LayoutConstraint(%a) {operand_layouts = [dense<[0, 1, 2]> : tensor<3xindex>], result_layouts = [dense<[0, 1, 2]> : tensor<3xindex>]} : (tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  // CHECK: remark: stablehlo.custom_call:  -> [a, b]{{$}}
  %9 = stablehlo.custom_call @AllocateBuffer() : () -> tensor<2x3xf32>
  return
}

// Blocks of 32 elements have a scale each.
func.func @scaled(%a: tensor<2x4x128xf8E4M3FN>, %b: tensor<2x6x128xf8E4M3FN>, %c: tensor<2x4x4xf8E8M0FNU>, %d: tensor<2x6x4xf8E8M0FNU>) -> tensor<2x4x6xbf16> {
  // CHECK: remark: stablehlo.custom_call: [a, b, d], [a, c, d], [a, b, d:(1)4], [a, c, d:(1)4] -> [a, b, c] reduce {d: sum}
  %0 = stablehlo.custom_call @__op$block_scaled_dot(%a, %b, %c, %d) : (tensor<2x4x128xf8E4M3FN>, tensor<2x6x128xf8E4M3FN>, tensor<2x4x4xf8E8M0FNU>, tensor<2x6x4xf8E8M0FNU>) -> tensor<2x4x6xbf16>
  return %0 : tensor<2x4x6xbf16>
}

// Some elements of a sparse matrix make parts of all rows.
func.func @sparse(%a: tensor<20xf32>, %rows: tensor<5xi32>, %columns: tensor<20xi32>, %b: tensor<6x3xf32>, %v: tensor<6xf32>) {
  // CHECK: remark: stablehlo.custom_call: [a], [*], [a], [*, b] -> [*, b] reduce {a: sum}
  %0 = stablehlo.custom_call @cpu_csr_sparse_dense_ffi(%a, %rows, %columns, %b) : (tensor<20xf32>, tensor<5xi32>, tensor<20xi32>, tensor<6x3xf32>) -> tensor<4x3xf32>
  // CHECK: remark: stablehlo.custom_call: [a], [*], [a], [*] -> [*] reduce {a: sum}
  %1 = stablehlo.custom_call @cpu_csr_sparse_dense_ffi(%a, %rows, %columns, %v) : (tensor<20xf32>, tensor<5xi32>, tensor<20xi32>, tensor<6xf32>) -> tensor<4xf32>
  return
}

// Batches and heads; a head of keys serves two of queries, and a bias is for all batches.
func.func @attention(%q: tensor<2x6x4x8xbf16>, %k: tensor<2x10x2x8xbf16>, %bias: tensor<1x4x6x10xbf16>) -> tensor<2x4x6x8xbf16> {
  // CHECK: remark: stablehlo.custom_call: [a, *, b, *], [a, *, b:(1)2, *], [a, *, b:(1)2, *], [*, b, *, *] -> [a, b, *, *], [*]{{$}}
  %0:2 = stablehlo.custom_call @__cudnn$fmhaScaleBiasSoftmax(%q, %k, %k, %bias) {api_version = 2 : i32, backend_config = "{\22cudnn_fmha_backend_config\22: {\22intermediate_tensor_shape\22: {\22dimensions\22: [\222\22, \224\22, \226\22, \2210\22]}, \22bmm1_dot_dimension_numbers\22: {\22lhs_batch_dimensions\22: [\220\22, \222\22]}, \22max_seg_per_batch\22: 1, \22is_paged_attention\22: false}}"} : (tensor<2x6x4x8xbf16>, tensor<2x10x2x8xbf16>, tensor<2x10x2x8xbf16>, tensor<1x4x6x10xbf16>) -> (tensor<2x4x6x8xbf16>, tensor<0xui8>)
  // Of what it says nothing, nothing is known; nor where it draws random numbers.
  // CHECK: remark: stablehlo.custom_call: no rule
  %1:2 = stablehlo.custom_call @__cudnn$fmhaSoftmax(%q, %k, %k) {api_version = 2 : i32, backend_config = "{}"} : (tensor<2x6x4x8xbf16>, tensor<2x10x2x8xbf16>, tensor<2x10x2x8xbf16>) -> (tensor<2x4x6x8xbf16>, tensor<0xui8>)
  // CHECK: remark: stablehlo.custom_call: no rule
  %2:2 = stablehlo.custom_call @__cudnn$fmhaSoftmaxDropout(%q, %k, %k) {api_version = 2 : i32, backend_config = "{}"} : (tensor<2x6x4x8xbf16>, tensor<2x10x2x8xbf16>, tensor<2x10x2x8xbf16>) -> (tensor<2x4x6x8xbf16>, tensor<0xui8>)
  return %0#0 : tensor<2x4x6x8xbf16>
}
