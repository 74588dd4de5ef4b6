// RUN: dtensor-opt %s -p dtensor-optimize-collectives | filecheck %s

// What will be sliced in one dimension need not be gathered whole in another.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @over_another_axis
func.func @over_another_axis(%arg0: tensor<2x6xf32>) -> tensor<8x3xf32> {
  // CHECK: %[[S:.*]] = "dtensor.all_slice"(%arg0) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 1 : i64} : (tensor<2x6xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: %[[G:.*]] = "dtensor.all_gather"(%[[S]]) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<2x3xf32>) -> tensor<8x3xf32>
  // CHECK-NEXT: return %[[G]]
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<2x6xf32>) -> tensor<8x6xf32>
  %1 = "dtensor.all_slice"(%0) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 1 : i64} : (tensor<8x6xf32>) -> tensor<8x3xf32>
  return %1 : tensor<8x3xf32>
}

// CHECK-LABEL: func.func @over_the_same_axis
func.func @over_the_same_axis(%arg0: tensor<2x6xf32>) -> tensor<4x3xf32> {
  // CHECK: %[[A:.*]] = "dtensor.all_to_all"(%arg0) {axes = #dtensor.axes<@mesh, ["x"]>, concat_dim = 0 : i64, split_dim = 1 : i64}
  // CHECK-NEXT: return %[[A]]
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64} : (tensor<2x6xf32>) -> tensor<4x6xf32>
  %1 = "dtensor.all_slice"(%0) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 1 : i64} : (tensor<4x6xf32>) -> tensor<4x3xf32>
  return %1 : tensor<4x3xf32>
}

// The slice meets its own gather once the other one is out of the way.

// CHECK-LABEL: func.func @behind_another_gather
func.func @behind_another_gather(%arg0: tensor<2x3xf32>) -> tensor<8x3xf32> {
  // CHECK: %[[G:.*]] = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64}
  // CHECK-NEXT: return %[[G]]
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x6xf32>
  %1 = "dtensor.all_gather"(%0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<2x6xf32>) -> tensor<8x6xf32>
  %2 = "dtensor.all_slice"(%1) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 1 : i64} : (tensor<8x6xf32>) -> tensor<8x3xf32>
  return %2 : tensor<8x3xf32>
}

// CHECK-LABEL: func.func @the_gather_has_another_use
func.func @the_gather_has_another_use(%arg0: tensor<2x6xf32>) -> (tensor<8x3xf32>, tensor<8x6xf32>) {
  // CHECK: "dtensor.all_gather"(%arg0)
  // CHECK-NEXT: "dtensor.all_slice"
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<2x6xf32>) -> tensor<8x6xf32>
  %1 = "dtensor.all_slice"(%0) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 1 : i64} : (tensor<8x6xf32>) -> tensor<8x3xf32>
  return %1, %0 : tensor<8x3xf32>, tensor<8x6xf32>
}
