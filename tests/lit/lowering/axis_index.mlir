// RUN: dtensor-opt %s -p dtensor-lower | filecheck %s

// Coordinates are arithmetic on partition_id, read once per function, in front of everything. It is
// without a sign: XLA makes a shift or a mask of each division.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @slices_and_indices
func.func @slices_and_indices(%arg0: tensor<8x6xf32>) -> (tensor<2x6xf32>, tensor<8x3xf32>, tensor<i32>) {
  // CHECK: %[[P:.*]] = stablehlo.partition_id : tensor<ui32>
  // CHECK-NOT: partition_id
  // CHECK: %[[REST:.*]] = stablehlo.remainder %[[P]], %{{.*}} : tensor<ui32>
  // CHECK-NEXT: %[[Y:.*]] = stablehlo.convert %[[REST]] : (tensor<ui32>) -> tensor<i32>
  // CHECK: %[[QUOTIENT:.*]] = stablehlo.divide %[[P]], %{{.*}} : tensor<ui32>
  // CHECK-NEXT: %[[X:.*]] = stablehlo.convert %[[QUOTIENT]] : (tensor<ui32>) -> tensor<i32>
  // CHECK: %[[ROW:.*]] = stablehlo.multiply %[[Y]], %{{.*}}
  // CHECK: stablehlo.dynamic_slice %arg0, %[[ROW]], %{{.*}}, sizes = [2, 6]
  // CHECK: %[[COLUMN:.*]] = stablehlo.multiply %[[X]], %{{.*}}
  // CHECK: stablehlo.dynamic_slice %arg0, %{{.*}}, %[[COLUMN]], sizes = [8, 3]
  // CHECK: return %{{.*}}, %{{.*}}, %[[Y]]
  %0 = "dtensor.all_slice"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<8x6xf32>) -> tensor<2x6xf32>
  %1 = "dtensor.all_slice"(%arg0) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 1 : i64} : (tensor<8x6xf32>) -> tensor<8x3xf32>
  %2 = "dtensor.axis_index"() {axes = #dtensor.axes<@mesh, ["y"]>} : () -> tensor<i32>
  return %0, %1, %2 : tensor<2x6xf32>, tensor<8x3xf32>, tensor<i32>
}

// All axes in order are the position itself.

// CHECK-LABEL: func.func @the_position
func.func @the_position() -> tensor<i32> {
  // CHECK: %[[P:.*]] = stablehlo.partition_id
  // CHECK-NEXT: %[[I:.*]] = stablehlo.convert %[[P]]
  // CHECK-NEXT: return %[[I]]
  %0 = "dtensor.axis_index"() {axes = #dtensor.axes<@mesh, ["x", "y"]>} : () -> tensor<i32>
  return %0 : tensor<i32>
}

// CHECK-LABEL: func.func @in_another_order
func.func @in_another_order() -> tensor<i32> {
  // CHECK: %[[X:.*]] = stablehlo.convert
  // CHECK: stablehlo.remainder
  // CHECK-NEXT: %[[Y:.*]] = stablehlo.convert
  // CHECK: %[[C2:.*]] = stablehlo.constant dense<2>
  // CHECK: %[[M:.*]] = stablehlo.multiply %[[Y]], %[[C2]]
  // CHECK: stablehlo.add %[[M]], %[[X]]
  %0 = "dtensor.axis_index"() {axes = #dtensor.axes<@mesh, ["y", "x"]>} : () -> tensor<i32>
  return %0 : tensor<i32>
}

// CHECK-LABEL: func.func @no_coordinate_is_needed
func.func @no_coordinate_is_needed(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK-NOT: partition_id
  // CHECK: "stablehlo.all_reduce"
  %0 = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
