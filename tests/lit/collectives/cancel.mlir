// RUN: dtensor-opt %s -p dtensor-optimize-collectives | filecheck %s

// A gather followed by the slice that undoes it moves data for nothing.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @gathered_and_sliced_again
func.func @gathered_and_sliced_again(%arg0: tensor<2x6xf32>) -> tensor<2x6xf32> {
  // CHECK-NOT: dtensor.all
  // CHECK: return %arg0
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["x", "y"]>, dim = 0 : i64} : (tensor<2x6xf32>) -> tensor<16x6xf32>
  %1 = "dtensor.all_slice"(%0) {axes = #dtensor.axes<@mesh, ["x", "y"]>, dim = 0 : i64} : (tensor<16x6xf32>) -> tensor<2x6xf32>
  return %1 : tensor<2x6xf32>
}

// CHECK-LABEL: func.func @sliced_by_the_major_axis
func.func @sliced_by_the_major_axis(%arg0: tensor<2x6xf32>) -> tensor<8x6xf32> {
  // CHECK: %[[G:.*]] = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<2x6xf32>) -> tensor<8x6xf32>
  // CHECK-NEXT: return %[[G]]
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["x", "y"]>, dim = 0 : i64} : (tensor<2x6xf32>) -> tensor<16x6xf32>
  %1 = "dtensor.all_slice"(%0) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64} : (tensor<16x6xf32>) -> tensor<8x6xf32>
  return %1 : tensor<8x6xf32>
}

// The shard of y alone is not a part of the shard of x and y: both collectives are needed.

// CHECK-LABEL: func.func @sliced_by_the_minor_axis
func.func @sliced_by_the_minor_axis(%arg0: tensor<2x6xf32>) -> tensor<4x6xf32> {
  // CHECK: "dtensor.all_gather"
  // CHECK-NEXT: "dtensor.all_slice"
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["x", "y"]>, dim = 0 : i64} : (tensor<2x6xf32>) -> tensor<16x6xf32>
  %1 = "dtensor.all_slice"(%0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<16x6xf32>) -> tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}

// CHECK-LABEL: func.func @sliced_in_another_dimension
func.func @sliced_in_another_dimension(%arg0: tensor<2x6xf32>) -> tensor<4x3xf32> {
  // CHECK: "dtensor.all_to_all"
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64} : (tensor<2x6xf32>) -> tensor<4x6xf32>
  %1 = "dtensor.all_slice"(%0) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 1 : i64} : (tensor<4x6xf32>) -> tensor<4x3xf32>
  return %1 : tensor<4x3xf32>
}
