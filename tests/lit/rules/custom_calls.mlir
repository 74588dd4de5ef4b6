// RUN: dtensor-opt %s --dtensor-print-rules 2>&1 | filecheck %s

// Of LAPACK's calls JAX says which dimensions are a batch; what any other call does is unknown.

func.func @calls(%a: tensor<2x3x3xf32>) -> tensor<2x3x3xf32> {
  // CHECK: remark: stablehlo.custom_call: [a, *, *] -> [a, *, *], [a]{{$}}
  %0:2 = stablehlo.custom_call @lapack_spotrf_ffi(%a) {mhlo.backend_config = {uplo = 76 : ui8}, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, l, m], [i]) {i=2, j=3, k=3, l=3, m=3}, custom>} : (tensor<2x3x3xf32>) -> (tensor<2x3x3xf32>, tensor<2xi32>)
  // CHECK: remark: stablehlo.custom_call: no rule
  %1 = stablehlo.custom_call @someone_elses_kernel(%0#0) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j, k]) {i=2, j=3, k=3}, custom>} : (tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  // CHECK: remark: stablehlo.custom_call: no rule
  %2 = stablehlo.custom_call @lapack_ssyevd_ffi(%1) : (tensor<2x3x3xf32>) -> tensor<2x3x3xf32>
  return %2 : tensor<2x3x3xf32>
}
