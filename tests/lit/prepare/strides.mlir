// RUN: dtensor-opt %s --split-input-file --mesh x=2 -p dtensor-import,dtensor-fuse-cuts | filecheck %s

// What is behind the first of each block of two is a slice of the first of all blocks, which each
// shard takes by itself.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<8x6xf32>, %odd: tensor<4x6xf32>, %zero: tensor<f32>) -> tensor<8x6xf32> {
  // CHECK: %[[EVEN:.*]] = stablehlo.slice %arg0 [0:7:2, 0:6] : (tensor<8x6xf32>) -> tensor<4x6xf32>
  // CHECK: %[[ROLLED:.*]] = "dtensor.splice"(%arg1) {counts = array<i64: 1, 3>, dim = 0 : i64, sources = array<i64: 0, 0>, starts = array<i64: 3, 0>}
  // CHECK: %[[SUM:.*]] = stablehlo.add %[[ROLLED]], %[[EVEN]] : tensor<4x6xf32>
  %0 = stablehlo.slice %odd [0:3, 0:6] : (tensor<4x6xf32>) -> tensor<3x6xf32>
  %1 = stablehlo.slice %x [2:8:2, 0:6] : (tensor<8x6xf32>) -> tensor<3x6xf32>
  %2 = stablehlo.add %0, %1 : tensor<3x6xf32>
  // CHECK: %[[ALL:.*]] = "dtensor.splice"(%[[EVEN]], %[[SUM]]) {counts = array<i64: 1, 3>, dim = 0 : i64, sources = array<i64: 0, 1>, starts = array<i64: 0, 1>}
  %3 = stablehlo.slice %x [0:1, 0:6] : (tensor<8x6xf32>) -> tensor<1x6xf32>
  %4 = stablehlo.concatenate %3, %2, dim = 0 : (tensor<1x6xf32>, tensor<3x6xf32>) -> tensor<4x6xf32>
  // CHECK: stablehlo.pad %[[ALL]], %arg2, low = [0, 0], high = [1, 0], interior = [1, 0]
  %5 = stablehlo.pad %4, %zero, low = [0, 0], high = [1, 0], interior = [1, 0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<8x6xf32>
  return %5 : tensor<8x6xf32>
}

// -----

// Gaps likewise: the elements are spread over whole blocks, behind a cut.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<4x6xf32>, %y: tensor<3x6xf32>, %zero: tensor<f32>) -> tensor<8x6xf32> {
  // CHECK: %[[BLOCKS:.*]] = stablehlo.pad %arg1, %arg2, low = [1, 0], high = [0, 0], interior = [0, 0] : (tensor<3x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  // CHECK: stablehlo.pad %[[BLOCKS]], %arg2, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<4x6xf32>, tensor<f32>) -> tensor<8x6xf32>
  %0 = stablehlo.pad %y, %zero, low = [3, 0], high = [0, 0], interior = [1, 0] : (tensor<3x6xf32>, tensor<f32>) -> tensor<8x6xf32>
  return %0 : tensor<8x6xf32>
}

// -----

// A pad that crops, as a gradient has it, goes into the slice: every second row, of the whole.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<8x6xf32>, %zero: tensor<f32>) -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<3x6xf32>) {
  // CHECK: stablehlo.slice %arg0 [1:8:2, 0:6] : (tensor<8x6xf32>) -> tensor<4x6xf32>
  %0 = stablehlo.pad %x, %zero, low = [-1, 0], high = [0, 0], interior = [0, 0] : (tensor<8x6xf32>, tensor<f32>) -> tensor<7x6xf32>
  %1 = stablehlo.slice %0 [0:7:2, 0:6] : (tensor<7x6xf32>) -> tensor<4x6xf32>
  // CHECK: stablehlo.slice %arg0 [0:7:2, 0:6] : (tensor<8x6xf32>) -> tensor<4x6xf32>
  %2 = stablehlo.pad %x, %zero, low = [0, 0], high = [-1, 0], interior = [0, 0] : (tensor<8x6xf32>, tensor<f32>) -> tensor<7x6xf32>
  %3 = stablehlo.slice %2 [0:7:2, 0:6] : (tensor<7x6xf32>) -> tensor<4x6xf32>
  // One that also pads stays.
  // CHECK: %[[PADDED:.*]] = stablehlo.pad %arg0
  // CHECK: stablehlo.slice %[[PADDED]] [0:5:2, 0:6]
  %4 = stablehlo.pad %x, %zero, low = [1, 0], high = [-4, 0], interior = [0, 0] : (tensor<8x6xf32>, tensor<f32>) -> tensor<5x6xf32>
  %5 = stablehlo.slice %4 [0:5:2, 0:6] : (tensor<5x6xf32>) -> tensor<3x6xf32>
  return %1, %3, %5 : tensor<4x6xf32>, tensor<4x6xf32>, tensor<3x6xf32>
}
