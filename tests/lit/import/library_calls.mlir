// RUN: dtensor-opt %s -p dtensor-import | filecheck %s

// Shardy's rule speaks of sizes: it goes, and what JAX says of batches stays.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<4x3x3xf32>) -> tensor<4x3x3xf32> {
  // CHECK: stablehlo.custom_call @lapack_spotrf_ffi
  // CHECK-NOT: sdy.sharding_rule
  // CHECK-SAME: num_batch_dims = "1"
  // CHECK-NOT: sdy.sharding_rule
  // CHECK-SAME: (tensor<4x3x3xf32>) -> (tensor<4x3x3xf32>, tensor<4xi32>)
  %0:2 = stablehlo.custom_call @lapack_spotrf_ffi(%a) {mhlo.frontend_attributes = {num_batch_dims = "1"}, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, l, m], [i]) {i=4, j=3, k=3, l=3, m=3}, custom>} : (tensor<4x3x3xf32>) -> (tensor<4x3x3xf32>, tensor<4xi32>)
  return %0#0 : tensor<4x3x3xf32>
}
