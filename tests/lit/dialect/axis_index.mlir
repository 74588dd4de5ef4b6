// RUN: dtensor-opt %s | dtensor-opt | filecheck %s

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @over_two_axes
func.func @over_two_axes() -> tensor<i32> {
  // CHECK: "dtensor.axis_index"() {axes = #dtensor.axes<@mesh, ["y", "x"]>} : () -> tensor<i32>
  %0 = "dtensor.axis_index"() {axes = #dtensor.axes<@mesh, ["y", "x"]>} : () -> tensor<i32>
  return %0 : tensor<i32>
}
