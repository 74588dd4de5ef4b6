// RUN: dtensor-opt %s -p dtensor-fuse-cuts --split-input-file | filecheck %s

// A roll is two slices put together the other way round: stretches of one value.
// CHECK-LABEL: func.func @main
module {
func.func @main(%u: tensor<8x6xf32>, %v: tensor<2x6xf32>, %zero: tensor<f32>) -> (tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<10x6xf32>, tensor<6x6xf32>) {
  // CHECK-NOT: stablehlo.
  // CHECK: %[[ROLL:.*]] = "dtensor.splice"(%arg0) {counts = array<i64: 3, 5>, dim = 0 : i64, sources = array<i64: 0, 0>, starts = array<i64: 5, 0>} : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %0 = stablehlo.slice %u [5:8, 0:6] : (tensor<8x6xf32>) -> tensor<3x6xf32>
  %1 = stablehlo.slice %u [0:5, 0:6] : (tensor<8x6xf32>) -> tensor<5x6xf32>
  %roll = stablehlo.concatenate %0, %1, dim = 0 : (tensor<3x6xf32>, tensor<5x6xf32>) -> tensor<8x6xf32>

  // What one dimension of a padded value is sliced to, and the other loses its padding again.
  // CHECK: %[[UP:.*]] = "dtensor.splice"(%arg0, %arg2) {counts = array<i64: 7, 1>, dim = 0 : i64, sources = array<i64: 0, 1>, starts = array<i64: 1, 0>} : (tensor<8x6xf32>, tensor<f32>) -> tensor<8x6xf32>
  %p = stablehlo.pad %u, %zero, low = [1, 1], high = [1, 1], interior = [0, 0] : (tensor<8x6xf32>, tensor<f32>) -> tensor<10x8xf32>
  %up = stablehlo.slice %p [2:10, 1:7] : (tensor<10x8xf32>) -> tensor<8x6xf32>
  // CHECK-NOT: stablehlo.
  // CHECK: %[[SIDE:.*]] = "dtensor.splice"(%arg0, %arg2) {counts = array<i64: 1, 5>, dim = 1 : i64, sources = array<i64: 1, 0>, starts = array<i64: 0, 0>}
  // CHECK: %[[BOTH:.*]] = "dtensor.splice"(%[[SIDE]], %arg2) {counts = array<i64: 1, 7>, dim = 0 : i64, sources = array<i64: 1, 0>, starts = array<i64: 0, 0>}
  %both = stablehlo.slice %p [0:8, 0:6] : (tensor<10x8xf32>) -> tensor<8x6xf32>

  // Rows of another value come in.
  %2 = stablehlo.slice %u [2:8, 0:6] : (tensor<8x6xf32>) -> tensor<6x6xf32>
  %in = stablehlo.concatenate %2, %v, dim = 0 : (tensor<6x6xf32>, tensor<2x6xf32>) -> tensor<8x6xf32>

  // What ends in another size stays.
  // CHECK: %[[SHORT:.*]] = stablehlo.slice %arg0 [2:8, 0:6]
  // CHECK: %[[IN:.*]] = "dtensor.splice"(%arg0, %arg1) {counts = array<i64: 6, 2>, dim = 0 : i64, sources = array<i64: 0, 1>, starts = array<i64: 2, 0>}
  // CHECK: %[[LONG:.*]] = stablehlo.concatenate %arg0, %arg1, dim = 0
  %long = stablehlo.concatenate %u, %v, dim = 0 : (tensor<8x6xf32>, tensor<2x6xf32>) -> tensor<10x6xf32>
  // CHECK: return %[[ROLL]], %[[UP]], %[[BOTH]], %[[IN]], %[[LONG]], %[[SHORT]]
  return %roll, %up, %both, %in, %long, %2 : tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<8x6xf32>, tensor<10x6xf32>, tensor<6x6xf32>
}
}

// -----

// A slice without elements is read by nobody, and what it is padded to is the padding.
// CHECK-LABEL: func.func @main
module {
func.func @main(%u: tensor<8x6xf32>, %one: tensor<f32>) -> tensor<8x6xf32> {
  // CHECK-NEXT: %[[ALL:.*]] = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<8x6xf32>
  // CHECK-NEXT: return %[[ALL]]
  %none = stablehlo.slice %u [8:8, 0:6] : (tensor<8x6xf32>) -> tensor<0x6xf32>
  %all = stablehlo.pad %none, %one, low = [0, 0], high = [8, 0], interior = [0, 0] : (tensor<0x6xf32>, tensor<f32>) -> tensor<8x6xf32>
  return %all : tensor<8x6xf32>
}
}
