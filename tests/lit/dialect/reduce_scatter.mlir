// RUN: dtensor-opt %s | dtensor-opt | filecheck %s

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @columns
func.func @columns(%arg0: tensor<3x8xf32>) -> tensor<3x2xf32> {
  // CHECK: "dtensor.reduce_scatter"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 1 : i64, reduction = "sum"} : (tensor<3x8xf32>) -> tensor<3x2xf32>
  %0 = "dtensor.reduce_scatter"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 1 : i64, reduction = "sum"} : (tensor<3x8xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}
