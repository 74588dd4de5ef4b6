// RUN: dtensor-opt %s --split-input-file -p dtensor-import,dtensor-find-forms | filecheck %s

// Singular values and vectors of split rows are those of R, the left ones multiplied with Q.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<12x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<12x4xf32>, tensor<4xf32>, tensor<4x4xf32>) {
  // CHECK: %[[QR:.*]]:2 = "dtensor.qr"(%arg0) {{.*}} : (tensor<12x4xf32>) -> (tensor<12x4xf32>, tensor<4x4xf32>)
  // CHECK: %[[SVD:.*]]:5 = stablehlo.custom_call @lapack_sgesdd_ffi(%[[QR]]#1)
  // CHECK-SAME: (tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<i32>)
  // CHECK: %[[LEFT:.*]] = stablehlo.dot_general %[[QR]]#0, %[[SVD]]#2, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST]
  // CHECK: return %[[LEFT]], %[[SVD]]#1, %[[SVD]]#3
  %0:5 = stablehlo.custom_call @lapack_sgesdd_ffi(%a) {mhlo.backend_config = {mode = 83 : ui8}, mhlo.frontend_attributes = {num_batch_dims = "0"}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 0, operand_tuple_indices = []>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<0> : tensor<1xindex>, dense<[0, 1]> : tensor<2xindex>, dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]} : (tensor<12x4xf32>) -> (tensor<12x4xf32>, tensor<4xf32>, tensor<12x4xf32>, tensor<4x4xf32>, tensor<i32>)
  return %0#2, %0#1, %0#3 : tensor<12x4xf32>, tensor<4xf32>, tensor<4x4xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// A call that does not say what of each it gives stays; so does one of rows that nothing splits.

// CHECK-LABEL: func.func @main
// CHECK-NOT: dtensor.qr
func.func @main(%a: tensor<12x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<4xf32> {
  %0:5 = stablehlo.custom_call @lapack_sgesdd_ffi(%a) : (tensor<12x4xf32>) -> (tensor<12x4xf32>, tensor<4xf32>, tensor<12x4xf32>, tensor<4x4xf32>, tensor<i32>)
  return %0#1 : tensor<4xf32>
}
