// RUN: dtensor-opt %s -p dtensor-optimize-collectives | filecheck %s

// Reducing over x and then over y is reducing over both, which moves less.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @one_axis_after_the_other
func.func @one_axis_after_the_other(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK: %[[R:.*]] = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["x", "y"]>, reduction = "sum"}
  // CHECK-NEXT: return %[[R]]
  %0 = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "dtensor.all_reduce"(%0) {axes = #dtensor.axes<@mesh, ["x"]>, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @a_sum_of_a_maximum_is_neither
func.func @a_sum_of_a_maximum_is_neither(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK: "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "max"}
  // CHECK-NEXT: "dtensor.all_reduce"{{.*}}reduction = "sum"
  %0 = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "max"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "dtensor.all_reduce"(%0) {axes = #dtensor.axes<@mesh, ["x"]>, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// The program adds four equal sums; it is no business of this pass to change the number.

// CHECK-LABEL: func.func @the_same_axis_twice
func.func @the_same_axis_twice(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK-COUNT-2: "dtensor.all_reduce"
  %0 = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "dtensor.all_reduce"(%0) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}
