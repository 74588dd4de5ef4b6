// RUN: dtensor-opt %s --split-input-file --mesh x=8 -p dtensor-import,dtensor-fuse-cuts | filecheck %s

// A product with a known matrix of few diagonals is one of frames. What is infinite or NaN is counted,
// on each of 8 shards up to more than a frame has, in bytes.

// CHECK-LABEL: func.func @whole_blocks
// CHECK: %[[APART:.*]] = stablehlo.reshape %{{.*}} : (tensor<64x3xf32>) -> tensor<8x8x3xf32>
// CHECK: stablehlo.reduce(%[[APART]] init
// CHECK: tensor<8x3xui8>
// CHECK: stablehlo.dot_general {{.*}} batching_dims
func.func @whole_blocks(%a: tensor<64x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<32x3xf32> {
  %row = stablehlo.iota dim = 0 : tensor<32x64xi32>
  %column = stablehlo.iota dim = 1 : tensor<32x64xi32>
  %two = stablehlo.constant dense<2> : tensor<32x64xi32>
  %half = stablehlo.divide %column, %two : tensor<32x64xi32>
  %is = stablehlo.compare EQ, %row, %half : (tensor<32x64xi32>, tensor<32x64xi32>) -> tensor<32x64xi1>
  %weights = stablehlo.convert %is : (tensor<32x64xi1>) -> tensor<32x64xf32>
  %0 = stablehlo.dot_general %weights, %a, contracting_dims = [1] x [0] : (tensor<32x64xf32>, tensor<64x3xf32>) -> tensor<32x3xf32>
  return %0 : tensor<32x3xf32>
}

// -----

// Of 36 blocks 8 shards have no whole ones, so that the dimension becomes longer, though they divide
// its 72 elements: it is not cut into 8 parts, but summed as it is.

// CHECK-LABEL: func.func @no_whole_blocks
// CHECK-NOT: tensor<8x9x3xf32>
// CHECK-NOT: ui8
// CHECK: stablehlo.reduce(%{{.*}} init: %{{.*}}) applies stablehlo.add across dimensions = [0] : (tensor<72x3xf32>, tensor<f32>) -> tensor<3xf32>
// CHECK-NOT: ui8
// CHECK: return
func.func @no_whole_blocks(%a: tensor<72x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<36x3xf32> {
  %row = stablehlo.iota dim = 0 : tensor<36x72xi32>
  %column = stablehlo.iota dim = 1 : tensor<36x72xi32>
  %two = stablehlo.constant dense<2> : tensor<36x72xi32>
  %half = stablehlo.divide %column, %two : tensor<36x72xi32>
  %is = stablehlo.compare EQ, %row, %half : (tensor<36x72xi32>, tensor<36x72xi32>) -> tensor<36x72xi1>
  %weights = stablehlo.convert %is : (tensor<36x72xi1>) -> tensor<36x72xf32>
  %0 = stablehlo.dot_general %weights, %a, contracting_dims = [1] x [0] : (tensor<36x72xf32>, tensor<72x3xf32>) -> tensor<36x3xf32>
  return %0 : tensor<36x3xf32>
}
