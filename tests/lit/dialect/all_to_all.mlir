// RUN: dtensor-opt %s | dtensor-opt | filecheck %s

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @from_columns_to_rows
func.func @from_columns_to_rows(%arg0: tensor<8x3xf32>) -> tensor<2x12xf32> {
  // CHECK: "dtensor.all_to_all"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["y"]>, concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x3xf32>) -> tensor<2x12xf32>
  %0 = "dtensor.all_to_all"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<8x3xf32>) -> tensor<2x12xf32>
  return %0 : tensor<2x12xf32>
}
