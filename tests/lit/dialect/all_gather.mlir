// RUN: dtensor-opt %s | dtensor-opt | filecheck %s

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @over_an_axis_and_a_part
func.func @over_an_axis_and_a_part(%arg0: tensor<3x2xf32>) -> tensor<3x8xf32> {
  // CHECK: "dtensor.all_gather"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["x", "y":(1)2]>, dim = 1 : i64} : (tensor<3x2xf32>) -> tensor<3x8xf32>
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["x", "y":(1)2]>, dim = 1 : i64} : (tensor<3x2xf32>) -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}
