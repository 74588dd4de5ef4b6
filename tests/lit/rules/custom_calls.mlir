// RUN: dtensor-opt %s --dtensor-print-rules 2>&1 | filecheck %s

// Of LAPACK's calls JAX says which dimensions are a batch; what any other call does is unknown.

// What a user defines, as dtensor.define_op writes it.
func.func @defined(%q: tensor<2x4x6x8xf32>, %k: tensor<2x4x10x8xf32>) -> tensor<2x4xf32> {
  // CHECK: remark: stablehlo.custom_call: [a, b, *, *], [a, b, *, *] -> [a, b, *, *]; dimension 2 of operand 0 is whole by the definition of 'attend'
  %0 = stablehlo.custom_call @attend(%q, %k) {dtensor.op = {signature = "b h q d, b h k d -> b h q d", whole = ["q", "k", "d"], flops = "4 b h q k d"}} : (tensor<2x4x6x8xf32>, tensor<2x4x10x8xf32>) -> tensor<2x4x6x8xf32>
  // CHECK: remark: stablehlo.custom_call: [a, b, *, c] -> [a, b] reduce {c: max}; passes sum -> sum; dimension 2 of operand 0 is not in every result, and 'largest' says no reduction of it
  %1 = stablehlo.custom_call @largest(%0) {dtensor.op = {signature = "... i j -> ...", reduce = {j = "max"}, linear = [array<i64: 0>]}} : (tensor<2x4x6x8xf32>) -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}

func.func @calls(%a: tensor<2x3x3xf32>) -> tensor<2x3x3xf32> {
  // CHECK: remark: stablehlo.custom_call: [a, *, *] -> [a, *, *], [a]{{$}}
  %0:2 = stablehlo.custom_call @lapack_spotrf_ffi(%a) {mhlo.backend_config = {uplo = 76 : ui8}, mhlo.frontend_attributes = {num_batch_dims = "1"}, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, l, m], [i]) {i=2, j=3, k=3, l=3, m=3}, custom>} : (tensor<2x3x3xf32>) -> (tensor<2x3x3xf32>, tensor<2xi32>)
  // CHECK: remark: stablehlo.custom_call: no rule
  %1 = stablehlo.custom_call @someone_elses_kernel(%0#0) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j, k]) {i=2, j=3, k=3}, custom>} : (tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  // CHECK: remark: stablehlo.custom_call: no rule
  %2 = stablehlo.custom_call @lapack_ssyevd_ffi(%1) : (tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  // What JAX calls on a GPU, with Shardy's rule or without.
  // CHECK: remark: stablehlo.custom_call: [a, *, *], [a, *] -> [a, *, *], [a, *], [a, *]{{$}}
  %pivots = stablehlo.constant dense<0> : tensor<2x3xi32>
  %3:3 = stablehlo.custom_call @cuhybrid_geqp3(%2, %pivots) {mhlo.frontend_attributes = {num_batch_dims = "1"}} : (tensor<2x3x3xf32>, tensor<2x3xi32>) -> (tensor<2x3x3xf32>, tensor<2x3xi32>, tensor<2x3xf32>)
  return %3#0 : tensor<2x3x3xf32>
}

// Each right side of a tridiagonal solve is by itself.
func.func @bands(%a: tensor<2x5xf32>, %b: tensor<2x5x4xf32>) -> tensor<2x5x4xf32> {
  // CHECK: remark: stablehlo.custom_call: [a, *], [a, *], [a, *], [a, *, b] -> [a, *, b]{{$}}
  %0 = stablehlo.custom_call @cusparse_gtsv2_ffi(%a, %a, %a, %b) {mhlo.frontend_attributes = {num_batch_dims = "1"}} : (tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x5x4xf32>) -> tensor<2x5x4xf32>
  return %0 : tensor<2x5x4xf32>
}

// Singular values alone: there are no vectors, and nobody reads what stands for them.
func.func @values(%a: tensor<2x7x3xf32>) -> tensor<2x3xf32> {
  // CHECK: remark: stablehlo.custom_call: [a, *, *] -> [a, *, *], [a, *], [], [], [a]{{$}}
  %0:5 = stablehlo.custom_call @cusolver_gesvd_ffi(%a) {mhlo.frontend_attributes = {num_batch_dims = "1"}} : (tensor<2x7x3xf32>) -> (tensor<2x7x3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<f32>, tensor<2xi32>)
  return %0#1 : tensor<2x3xf32>
}

// A result that somebody reads has all matrices in it.
func.func @total(%a: tensor<2x7x3xf32>) -> tensor<f32> {
  // CHECK: remark: stablehlo.custom_call: [*, *, *] -> [*, *, *], []{{$}}
  %0:2 = stablehlo.custom_call @cusolver_total(%a) {mhlo.frontend_attributes = {num_batch_dims = "1"}} : (tensor<2x7x3xf32>) -> (tensor<2x7x3xf32>, tensor<f32>)
  return %0#1 : tensor<f32>
}
