// RUN: dtensor-opt %s | dtensor-opt | filecheck %s

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @the_same_axes_in_another_order
func.func @the_same_axes_in_another_order(%arg0: tensor<3xf32>) -> tensor<3xf32> {
  // CHECK: "dtensor.collective_permute"(%{{.*}}) {from = #dtensor.axes<@mesh, ["x", "y"]>, to = #dtensor.axes<@mesh, ["y", "x"]>} : (tensor<3xf32>) -> tensor<3xf32>
  %0 = "dtensor.collective_permute"(%arg0) {from = #dtensor.axes<@mesh, ["x", "y"]>, to = #dtensor.axes<@mesh, ["y", "x"]>} : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// CHECK-LABEL: func.func @disjoint_axes_of_equal_product
func.func @disjoint_axes_of_equal_product(%arg0: tensor<3xf32>) -> tensor<3xf32> {
  // CHECK: {from = #dtensor.axes<@mesh, ["x"]>, to = #dtensor.axes<@mesh, ["y":(2)2]>}
  %0 = "dtensor.collective_permute"(%arg0) {from = #dtensor.axes<@mesh, ["x"]>, to = #dtensor.axes<@mesh, ["y":(2)2]>} : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// An axis and its parts are the same devices.
// CHECK-LABEL: func.func @an_axis_and_its_parts
func.func @an_axis_and_its_parts(%arg0: tensor<3xf32>) -> tensor<3xf32> {
  // CHECK: {from = #dtensor.axes<@mesh, ["y"]>, to = #dtensor.axes<@mesh, ["y":(2)2, "y":(1)2]>}
  %0 = "dtensor.collective_permute"(%arg0) {from = #dtensor.axes<@mesh, ["y"]>, to = #dtensor.axes<@mesh, ["y":(2)2, "y":(1)2]>} : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
