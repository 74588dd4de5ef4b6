// RUN: dtensor-opt %s --split-input-file --mesh x=2 -p dtensor-import,dtensor-fuse-cuts | filecheck %s

// What is computed of slices and put back is computed in the size of what was sliced: the slices
// are rolls, and what they bring round is chosen away.
// CHECK-LABEL: func.func @main
func.func @main(%u: tensor<8x6xf32>, %zero: tensor<f32>) -> tensor<8x6xf32> {
  // CHECK: %[[UP:.*]] = "dtensor.splice"(%arg0) {counts = array<i64: 7, 1>, dim = 0 : i64, sources = array<i64: 0, 0>, starts = array<i64: 1, 0>}
  %0 = stablehlo.slice %u [2:8, 0:6] : (tensor<8x6xf32>) -> tensor<6x6xf32>
  // CHECK: %[[DOWN:.*]] = "dtensor.splice"(%arg0) {counts = array<i64: 1, 7>, dim = 0 : i64, sources = array<i64: 0, 0>, starts = array<i64: 7, 0>}
  %1 = stablehlo.slice %u [0:6, 0:6] : (tensor<8x6xf32>) -> tensor<6x6xf32>
  // CHECK: %[[SUM:.*]] = stablehlo.add %[[UP]], %[[DOWN]] : tensor<8x6xf32>
  %2 = stablehlo.add %0, %1 : tensor<6x6xf32>
  // CHECK: "dtensor.splice"(%[[SUM]], %arg1) {counts = array<i64: 1, 6, 1>, dim = 0 : i64, sources = array<i64: 1, 0, 1>, starts = array<i64: 0, 1, 0>}
  %3 = stablehlo.pad %2, %zero, low = [1, 0], high = [1, 0], interior = [0, 0] : (tensor<6x6xf32>, tensor<f32>) -> tensor<8x6xf32>
  // CHECK-NOT: stablehlo.slice
  return %3 : tensor<8x6xf32>
}

// -----

// A sum of differences adds zero where the last element would be met.
// CHECK-LABEL: func.func @main
func.func @main(%u: tensor<8xf32>, %zero: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.slice %u [1:8] : (tensor<8xf32>) -> tensor<7xf32>
  %1 = stablehlo.slice %u [0:7] : (tensor<8xf32>) -> tensor<7xf32>
  // CHECK: %[[DIFF:.*]] = stablehlo.subtract %arg0, %{{.*}} : tensor<8xf32>
  %2 = stablehlo.subtract %0, %1 : tensor<7xf32>
  // CHECK: %[[INSIDE:.*]] = stablehlo.select %{{.*}}, %[[DIFF]], %{{.*}} : tensor<8xi1>, tensor<8xf32>
  // CHECK: stablehlo.reduce(%[[INSIDE]] init: %arg1) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
  %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<7xf32>, tensor<f32>) -> tensor<f32>
  return %3 : tensor<f32>
}

// -----

// An update of a constant place chooses what is new; without a slice it stays a scatter.
// CHECK-LABEL: func.func @main
func.func @main(%u: tensor<8xf32>, %v: tensor<6xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %one = stablehlo.constant dense<1> : tensor<1xi32>
  %0 = stablehlo.slice %u [2:8] : (tensor<8xf32>) -> tensor<6xf32>
  // CHECK: stablehlo.select %{{.*}}, %{{.*}}, %arg0 : tensor<8xi1>, tensor<8xf32>
  %1 = "stablehlo.scatter"(%u, %one, %0) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], scatter_dims_to_operand_dims = [0]>, unique_indices = true}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %y : tensor<f32>
  }) : (tensor<8xf32>, tensor<1xi32>, tensor<6xf32>) -> tensor<8xf32>
  // CHECK: "stablehlo.scatter"(%arg0, %{{.*}}, %arg1)
  %2 = "stablehlo.scatter"(%u, %one, %v) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], scatter_dims_to_operand_dims = [0]>, unique_indices = true}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %y : tensor<f32>
  }) : (tensor<8xf32>, tensor<1xi32>, tensor<6xf32>) -> tensor<8xf32>
  return %1, %2 : tensor<8xf32>, tensor<8xf32>
}
