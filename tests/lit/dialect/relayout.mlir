// RUN: dtensor-opt %s | dtensor-opt | filecheck %s

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @from_rows_to_columns
func.func @from_rows_to_columns(%arg0: tensor<2x4xf32>) -> tensor<2x4xf32> {
  // CHECK: %[[MOVED:.*]] = "dtensor.relayout"(%{{.*}}) {layout = #dtensor.layout<@mesh, [{}, {"y"}]>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %0 = "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{}, {"y"}]>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: return %[[MOVED]]
  return %0 : tensor<2x4xf32>
}
