// RUN: dtensor-opt %s -p dtensor-optimize-collectives | filecheck %s

// What is sliced after an all_reduce need not be reduced on the devices that drop it.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @sliced_over_the_reduced_axes
func.func @sliced_over_the_reduced_axes(%arg0: tensor<8x6xf32>) -> tensor<2x6xf32> {
  // CHECK: %[[R:.*]] = "dtensor.reduce_scatter"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64, reduction = "max"}
  // CHECK-NEXT: return %[[R]]
  %0 = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "max"} : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %1 = "dtensor.all_slice"(%0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<8x6xf32>) -> tensor<2x6xf32>
  return %1 : tensor<2x6xf32>
}

// CHECK-LABEL: func.func @sliced_over_some_of_the_reduced_axes
func.func @sliced_over_some_of_the_reduced_axes(%arg0: tensor<8x6xf32>) -> tensor<2x6xf32> {
  // CHECK: %[[R:.*]] = "dtensor.reduce_scatter"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64, reduction = "sum"}
  // CHECK-NEXT: %[[A:.*]] = "dtensor.all_reduce"(%[[R]]) {axes = #dtensor.axes<@mesh, ["x"]>, reduction = "sum"} : (tensor<2x6xf32>)
  // CHECK-NEXT: return %[[A]]
  %0 = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["x", "y"]>, reduction = "sum"} : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %1 = "dtensor.all_slice"(%0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<8x6xf32>) -> tensor<2x6xf32>
  return %1 : tensor<2x6xf32>
}

// CHECK-LABEL: func.func @sliced_over_another_axis
func.func @sliced_over_another_axis(%arg0: tensor<8x6xf32>) -> tensor<8x3xf32> {
  // CHECK: %[[S:.*]] = "dtensor.all_slice"(%arg0) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 1 : i64}
  // CHECK-NEXT: %[[A:.*]] = "dtensor.all_reduce"(%[[S]]) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<8x3xf32>)
  // CHECK-NEXT: return %[[A]]
  %0 = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %1 = "dtensor.all_slice"(%0) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 1 : i64} : (tensor<8x6xf32>) -> tensor<8x3xf32>
  return %1 : tensor<8x3xf32>
}

// The whole sum is needed as well: slicing it costs nothing, reducing twice would.

// CHECK-LABEL: func.func @the_sum_has_another_use
func.func @the_sum_has_another_use(%arg0: tensor<8x6xf32>) -> (tensor<2x6xf32>, tensor<8x6xf32>) {
  // CHECK: "dtensor.all_reduce"(%arg0)
  // CHECK-NEXT: "dtensor.all_slice"
  %0 = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %1 = "dtensor.all_slice"(%0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<8x6xf32>) -> tensor<2x6xf32>
  return %1, %0 : tensor<2x6xf32>, tensor<8x6xf32>
}

// CHECK-LABEL: func.func @sliced_over_more_than_was_reduced
func.func @sliced_over_more_than_was_reduced(%arg0: tensor<8x6xf32>) -> tensor<1x6xf32> {
  // CHECK: "dtensor.all_reduce"(%arg0)
  // CHECK-NEXT: "dtensor.all_slice"
  %0 = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %1 = "dtensor.all_slice"(%0) {axes = #dtensor.axes<@mesh, ["y", "x"]>, dim = 0 : i64} : (tensor<8x6xf32>) -> tensor<1x6xf32>
  return %1 : tensor<1x6xf32>
}
