// RUN: dtensor-opt %s | dtensor-opt | filecheck %s

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @rows_over_both_axes
func.func @rows_over_both_axes(%arg0: tensor<16x3xf32>) -> tensor<2x3xf32> {
  // CHECK: "dtensor.all_slice"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["y", "x"]>, dim = 0 : i64} : (tensor<16x3xf32>) -> tensor<2x3xf32>
  %0 = "dtensor.all_slice"(%arg0) {axes = #dtensor.axes<@mesh, ["y", "x"]>, dim = 0 : i64} : (tensor<16x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
