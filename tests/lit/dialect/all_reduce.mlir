// RUN: dtensor-opt %s | dtensor-opt | filecheck %s

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @one_value
func.func @one_value(%arg0: tensor<3xf32>) -> tensor<3xf32> {
  // CHECK: "dtensor.all_reduce"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["x"]>, reduction = "max"} : (tensor<3xf32>) -> tensor<3xf32>
  %0 = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["x"]>, reduction = "max"} : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// CHECK-LABEL: func.func @two_values_of_two_types_in_one_message
func.func @two_values_of_two_types_in_one_message(%arg0: tensor<3xf32>, %arg1: tensor<2x4xi32>) -> tensor<2x4xi32> {
  // CHECK: %[[BOTH:.*]]:2 = "dtensor.all_reduce"(%{{.*}}, %{{.*}}) {axes = #dtensor.axes<@mesh, ["x", "y"]>, reduction = "sum"}
  %0:2 = "dtensor.all_reduce"(%arg0, %arg1) {axes = #dtensor.axes<@mesh, ["x", "y"]>, reduction = "sum"} : (tensor<3xf32>, tensor<2x4xi32>) -> (tensor<3xf32>, tensor<2x4xi32>)
  // CHECK: return %[[BOTH]]#1
  return %0#1 : tensor<2x4xi32>
}
