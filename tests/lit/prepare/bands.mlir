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
// CHECK: stablehlo.reduce(%{{.*}} init: %{{.*}}) applies stablehlo.add across dimensions = [0] : (tensor<72x3xui8>, tensor<ui8>) -> tensor<3xui8>
// CHECK: stablehlo.dot_general {{.*}} batching_dims
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

// -----

// 62 and 124 rows have 62 blocks in common, 63 and 125 none: of these each of 8 shards has one block
// of 8 rows, which is its frame, and one of 16 results.

// CHECK-LABEL: func.func @a_block_for_each_shard
// CHECK: stablehlo.pad %{{.*}} low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<63x3xf32>
// CHECK: stablehlo.dot_general {{.*}} batching_dims = [0] x [0], contracting_dims = {{.*}} -> tensor<8x3x16xf32>
// CHECK: stablehlo.slice %{{.*}} [0:125, 0:3] : (tensor<128x3xf32>) -> tensor<125x3xf32>
func.func @a_block_for_each_shard(%a: tensor<63x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<125x3xf32> {
  %row = stablehlo.iota dim = 0 : tensor<125x63xi32>
  %column = stablehlo.iota dim = 1 : tensor<125x63xi32>
  %two = stablehlo.constant dense<2> : tensor<125x63xi32>
  %half = stablehlo.divide %row, %two : tensor<125x63xi32>
  %is = stablehlo.compare EQ, %column, %half : (tensor<125x63xi32>, tensor<125x63xi32>) -> tensor<125x63xi1>
  %weights = stablehlo.convert %is : (tensor<125x63xi1>) -> tensor<125x63xf32>
  %0 = stablehlo.dot_general %weights, %a, contracting_dims = [1] x [0] : (tensor<125x63xf32>, tensor<63x3xf32>) -> tensor<125x3xf32>
  return %0 : tensor<125x3xf32>
}

// -----

// Row 61 reads row 0: frames would be longer than two shards.

// CHECK-LABEL: func.func @reversed
// CHECK-NOT: batching_dims
// CHECK: return
func.func @reversed(%a: tensor<63x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<62x3xf32> {
  %row = stablehlo.iota dim = 0 : tensor<62x63xi32>
  %column = stablehlo.iota dim = 1 : tensor<62x63xi32>
  %last = stablehlo.constant dense<61> : tensor<62x63xi32>
  %from = stablehlo.subtract %last, %row : tensor<62x63xi32>
  %is = stablehlo.compare EQ, %column, %from : (tensor<62x63xi32>, tensor<62x63xi32>) -> tensor<62x63xi1>
  %weights = stablehlo.convert %is : (tensor<62x63xi1>) -> tensor<62x63xf32>
  %0 = stablehlo.dot_general %weights, %a, contracting_dims = [1] x [0] : (tensor<62x63xf32>, tensor<63x3xf32>) -> tensor<62x3xf32>
  return %0 : tensor<62x3xf32>
}

// -----

// 7 rows are less than 8 shards.

// CHECK-LABEL: func.func @few_rows
// CHECK-NOT: batching_dims
// CHECK: return
func.func @few_rows(%a: tensor<7x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<13x3xf32> {
  %row = stablehlo.iota dim = 0 : tensor<13x7xi32>
  %column = stablehlo.iota dim = 1 : tensor<13x7xi32>
  %two = stablehlo.constant dense<2> : tensor<13x7xi32>
  %half = stablehlo.divide %row, %two : tensor<13x7xi32>
  %is = stablehlo.compare EQ, %column, %half : (tensor<13x7xi32>, tensor<13x7xi32>) -> tensor<13x7xi1>
  %weights = stablehlo.convert %is : (tensor<13x7xi1>) -> tensor<13x7xf32>
  %0 = stablehlo.dot_general %weights, %a, contracting_dims = [1] x [0] : (tensor<13x7xf32>, tensor<7x3xf32>) -> tensor<13x3xf32>
  return %0 : tensor<13x3xf32>
}

// -----

// A layout given splits the results into shards of 43 rows: so each makes these, of 26 rows.

// CHECK-LABEL: func.func @results_that_divide
// CHECK: stablehlo.dot_general {{.*}} (tensor<8x26x3xf32>, tensor<8x26x43xf32>) -> tensor<8x3x43xf32>
func.func @results_that_divide(%a: tensor<172x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
    -> (tensor<344x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  %row = stablehlo.iota dim = 0 : tensor<344x172xi32>
  %column = stablehlo.iota dim = 1 : tensor<344x172xi32>
  %two = stablehlo.constant dense<2> : tensor<344x172xi32>
  %half = stablehlo.divide %row, %two : tensor<344x172xi32>
  %is = stablehlo.compare EQ, %column, %half : (tensor<344x172xi32>, tensor<344x172xi32>) -> tensor<344x172xi1>
  %weights = stablehlo.convert %is : (tensor<344x172xi1>) -> tensor<344x172xf32>
  %0 = stablehlo.dot_general %weights, %a, contracting_dims = [1] x [0] : (tensor<344x172xf32>, tensor<172x3xf32>) -> tensor<344x3xf32>
  return %0 : tensor<344x3xf32>
}

// -----

// If none does, they may have 44, two of each row.

// CHECK-LABEL: func.func @results_that_need_not_divide
// CHECK: stablehlo.dot_general {{.*}} (tensor<172x1x3xf32>, tensor<172x1x2xf32>) -> tensor<172x3x2xf32>
func.func @results_that_need_not_divide(%a: tensor<172x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<344x3xf32> {
  %row = stablehlo.iota dim = 0 : tensor<344x172xi32>
  %column = stablehlo.iota dim = 1 : tensor<344x172xi32>
  %two = stablehlo.constant dense<2> : tensor<344x172xi32>
  %half = stablehlo.divide %row, %two : tensor<344x172xi32>
  %is = stablehlo.compare EQ, %column, %half : (tensor<344x172xi32>, tensor<344x172xi32>) -> tensor<344x172xi1>
  %weights = stablehlo.convert %is : (tensor<344x172xi1>) -> tensor<344x172xf32>
  %0 = stablehlo.dot_general %weights, %a, contracting_dims = [1] x [0] : (tensor<344x172xf32>, tensor<172x3xf32>) -> tensor<344x3xf32>
  return %0 : tensor<344x3xf32>
}
