// RUN: dtensor-opt %s --split-input-file --mesh x=2,y=4 -p dtensor-import,dtensor-fuse-cuts | filecheck %s

// A loss of few rows is computed where they are, with what else the shards have: they are the
// zeros of the sum. The reduction of each row and what is broadcast again go with it.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<64x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x", "y"}, {}]>}, %zero: tensor<f32>) -> tensor<f32> {
  // CHECK-NOT: stablehlo.slice
  %0 = stablehlo.slice %x [20:34, 0:3] : (tensor<64x3xf32>) -> tensor<14x3xf32>
  // CHECK: %[[ROWS:.*]] = stablehlo.reduce(%arg0 init: %arg1) applies stablehlo.add across dimensions = [1] : (tensor<64x3xf32>, tensor<f32>) -> tensor<64xf32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<14x3xf32>, tensor<f32>) -> tensor<14xf32>
  // CHECK: %[[WEIGHTS:.*]] = stablehlo.broadcast_in_dim %[[ROWS]], dims = [0] : (tensor<64xf32>) -> tensor<64x3xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<14xf32>) -> tensor<14x3xf32>
  // CHECK: %[[LONG:.*]] = stablehlo.multiply %arg0, %[[WEIGHTS]] : tensor<64x3xf32>
  %3 = stablehlo.multiply %0, %2 : tensor<14x3xf32>
  // CHECK: %[[ZEROS:.*]] = stablehlo.constant dense<-0.000000e+00> : tensor<64x3xf32>
  // CHECK: %[[INSIDE:.*]] = stablehlo.select %{{.*}}, %[[LONG]], %[[ZEROS]]
  // CHECK: stablehlo.reduce(%[[INSIDE]] init: %arg1) applies stablehlo.add across dimensions = [0, 1]
  %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<14x3xf32>, tensor<f32>) -> tensor<f32>
  return %4 : tensor<f32>
}

// -----

// So is the gradient: what is padded with zeros stays where it was sliced.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<64xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x", "y"}]>}, %zero: tensor<f32>) -> tensor<64xf32> {
  // CHECK: %[[LONG:.*]] = stablehlo.negate %arg0 : tensor<64xf32>
  %0 = stablehlo.slice %x [20:34] : (tensor<64xf32>) -> tensor<14xf32>
  %1 = stablehlo.negate %0 : tensor<14xf32>
  // CHECK: "dtensor.splice"(%[[LONG]], %arg1) {counts = array<i64: 20, 14, 30>, dim = 0 : i64, sources = array<i64: 1, 0, 1>, starts = array<i64: 0, 20, 0>}
  %2 = stablehlo.pad %1, %zero, low = [20], high = [30], interior = [0] : (tensor<14xf32>, tensor<f32>) -> tensor<64xf32>
  return %2 : tensor<64xf32>
}

// -----

// Only the slice is computed where it has fewer elements than a shard, of 2 or of 4 shards, and
// where it would have to move further than half a shard.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<64x64xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {"x"}]>}, %zero: tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64x64xf32>) {
  // CHECK: stablehlo.slice %arg0 [0:64, 20:34]
  %0 = stablehlo.slice %x [0:64, 20:34] : (tensor<64x64xf32>) -> tensor<64x14xf32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x14xf32>, tensor<f32>) -> tensor<64xf32>
  // CHECK: stablehlo.slice %arg0 [20:35, 0:64]
  %2 = stablehlo.slice %x [20:35, 0:64] : (tensor<64x64xf32>) -> tensor<15x64xf32>
  %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<15x64xf32>, tensor<f32>) -> tensor<64xf32>
  // CHECK: stablehlo.slice %arg0 [20:40, 0:64]
  %4 = stablehlo.slice %x [20:40, 0:64] : (tensor<64x64xf32>) -> tensor<20x64xf32>
  %5 = stablehlo.negate %4 : tensor<20x64xf32>
  // CHECK: stablehlo.pad
  %6 = stablehlo.pad %5, %zero, low = [0, 0], high = [44, 0], interior = [0, 0] : (tensor<20x64xf32>, tensor<f32>) -> tensor<64x64xf32>
  return %1, %3, %6 : tensor<64xf32>, tensor<64xf32>, tensor<64x64xf32>
}

// -----

// One element of a slice with a stride, put back into the size that was sliced, stays where it is,
// also where a product of slices is sliced so: what is kept of each block is split as the blocks.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<64xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x", "y"}]>}, %zero: tensor<f32>) -> (tensor<64xf32>, tensor<32xf32>) {
  // CHECK: %[[HALF:.*]] = stablehlo.slice %arg0 [0:63:2]
  %0 = stablehlo.slice %x [0:63:2] : (tensor<64xf32>) -> tensor<32xf32>
  %1 = stablehlo.slice %0 [0:1] : (tensor<32xf32>) -> tensor<1xf32>
  // CHECK: "dtensor.splice"(%arg0, %arg1) {counts = array<i64: 1, 63>, dim = 0 : i64, sources = array<i64: 0, 1>, starts = array<i64: 0, 0>}
  %2 = stablehlo.pad %1, %zero, low = [0], high = [63], interior = [0] : (tensor<1xf32>, tensor<f32>) -> tensor<64xf32>
  %3 = stablehlo.slice %0 [0:31:2] : (tensor<32xf32>) -> tensor<16xf32>
  %4 = stablehlo.slice %3 [0:1] : (tensor<16xf32>) -> tensor<1xf32>
  // CHECK: "dtensor.splice"(%[[HALF]], %arg1) {counts = array<i64: 1, 31>, dim = 0 : i64, sources = array<i64: 0, 1>, starts = array<i64: 0, 0>}
  %5 = stablehlo.pad %4, %zero, low = [0], high = [31], interior = [0] : (tensor<1xf32>, tensor<f32>) -> tensor<32xf32>
  return %2, %5 : tensor<64xf32>, tensor<32xf32>
}

// -----

// What is computed of two slices that begin alike is computed where they begin, and moved once.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<64xf32>, %y: tensor<64xf32>, %zero: tensor<f32>) -> tensor<64xf32> {
  %0 = stablehlo.slice %x [1:64] : (tensor<64xf32>) -> tensor<63xf32>
  %1 = stablehlo.slice %y [1:64] : (tensor<64xf32>) -> tensor<63xf32>
  // CHECK: %[[LONG:.*]] = stablehlo.multiply %arg0, %arg1 : tensor<64xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<63xf32>
  // CHECK: "dtensor.splice"(%[[LONG]], %arg2) {counts = array<i64: 63, 1>, dim = 0 : i64, sources = array<i64: 0, 1>, starts = array<i64: 1, 0>}
  %3 = stablehlo.pad %2, %zero, low = [0], high = [1], interior = [0] : (tensor<63xf32>, tensor<f32>) -> tensor<64xf32>
  return %3 : tensor<64xf32>
}

// -----

// What wraps around in the gradient of `jnp.pad(x, ((0, 0), (0, 2)), mode="wrap")` is a slice of the
// sum. So the sum is computed anyway, and not once more for the rest, where the rows are split over
// all devices: nothing is left to split the columns.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<8x64xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x", "y"}, {}]>}, %zero: tensor<f32>) -> tensor<8x64xf32> {
  %0 = stablehlo.pad %x, %zero, low = [0, 0], high = [0, 2], interior = [0, 0] : (tensor<8x64xf32>, tensor<f32>) -> tensor<8x66xf32>
  %1 = stablehlo.negate %x : tensor<8x64xf32>
  %2 = stablehlo.pad %1, %zero, low = [0, 2], high = [0, 0], interior = [0, 0] : (tensor<8x64xf32>, tensor<f32>) -> tensor<8x66xf32>
  // CHECK: %[[SUM:.*]] = stablehlo.add {{.*}} : tensor<8x66xf32>
  %3 = stablehlo.add %0, %2 : tensor<8x66xf32>
  // CHECK-DAG: stablehlo.slice %[[SUM]] [0:8, 0:64]
  %4 = stablehlo.slice %3 [0:8, 0:64] : (tensor<8x66xf32>) -> tensor<8x64xf32>
  // CHECK-DAG: stablehlo.slice %[[SUM]] [0:8, 64:66]
  %5 = stablehlo.slice %3 [0:8, 64:66] : (tensor<8x66xf32>) -> tensor<8x2xf32>
  %6 = stablehlo.pad %5, %zero, low = [0, 0], high = [0, 62], interior = [0, 0] : (tensor<8x2xf32>, tensor<f32>) -> tensor<8x64xf32>
  // CHECK: stablehlo.add {{.*}} : tensor<8x64xf32>
  %7 = stablehlo.add %4, %6 : tensor<8x64xf32>
  return %7 : tensor<8x64xf32>
}

// -----

// Where an axis is left, both are computed in the size of `x`: it may split the columns.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<8x64xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %zero: tensor<f32>) -> tensor<8x64xf32> {
  %0 = stablehlo.pad %x, %zero, low = [0, 0], high = [0, 2], interior = [0, 0] : (tensor<8x64xf32>, tensor<f32>) -> tensor<8x66xf32>
  %1 = stablehlo.negate %x : tensor<8x64xf32>
  %2 = stablehlo.pad %1, %zero, low = [0, 2], high = [0, 0], interior = [0, 0] : (tensor<8x64xf32>, tensor<f32>) -> tensor<8x66xf32>
  %3 = stablehlo.add %0, %2 : tensor<8x66xf32>
  // CHECK: %[[MOVED:.*]] = "dtensor.splice"
  // CHECK: stablehlo.add %{{.*}}, %[[MOVED]] : tensor<8x64xf32>
  %4 = stablehlo.slice %3 [0:8, 0:64] : (tensor<8x66xf32>) -> tensor<8x64xf32>
  %5 = stablehlo.slice %3 [0:8, 64:66] : (tensor<8x66xf32>) -> tensor<8x2xf32>
  %6 = stablehlo.pad %5, %zero, low = [0, 0], high = [0, 62], interior = [0, 0] : (tensor<8x2xf32>, tensor<f32>) -> tensor<8x64xf32>
  %7 = stablehlo.add %4, %6 : tensor<8x64xf32>
  return %7 : tensor<8x64xf32>
}

// -----

// What a reduction read at a place is there for the terms of a gradient too, that of one of which
// would else be computed again, a row further on.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<64x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x", "y"}, {}]>}, %zero: tensor<f32>) -> (tensor<f32>, tensor<64x3xf32>) {
  // CHECK: %[[ROLLED:.*]] = "dtensor.splice"(%arg0) {counts = array<i64: 1, 63>,
  // CHECK: %[[LONG:.*]] = stablehlo.subtract %arg0, %[[ROLLED]] : tensor<64x3xf32>
  %0 = stablehlo.slice %x [1:64, 0:3] : (tensor<64x3xf32>) -> tensor<63x3xf32>
  %1 = stablehlo.slice %x [0:63, 0:3] : (tensor<64x3xf32>) -> tensor<63x3xf32>
  %2 = stablehlo.subtract %0, %1 : tensor<63x3xf32>
  %3 = stablehlo.abs %2 : tensor<63x3xf32>
  %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<63x3xf32>, tensor<f32>) -> tensor<f32>
  // CHECK: %[[SIGN:.*]] = stablehlo.sign %[[LONG]]
  %5 = stablehlo.sign %2 : tensor<63x3xf32>
  // CHECK-NOT: stablehlo.subtract
  // CHECK: %[[LESS:.*]] = stablehlo.negate %[[SIGN]]
  %6 = stablehlo.negate %5 : tensor<63x3xf32>
  // CHECK: "dtensor.splice"(%[[LESS]], %arg1) {counts = array<i64: 63, 1>, dim = 0 : i64, sources = array<i64: 0, 1>, starts = array<i64: 1, 0>}
  // CHECK: "dtensor.splice"(%[[SIGN]], %arg1) {counts = array<i64: 1, 63>, dim = 0 : i64, sources = array<i64: 1, 0>, starts = array<i64: 0, 1>}
  %7 = stablehlo.pad %6, %zero, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<63x3xf32>, tensor<f32>) -> tensor<64x3xf32>
  %8 = stablehlo.pad %5, %zero, low = [1, 0], high = [0, 0], interior = [0, 0] : (tensor<63x3xf32>, tensor<f32>) -> tensor<64x3xf32>
  %9 = stablehlo.add %7, %8 : tensor<64x3xf32>
  return %4, %9 : tensor<f32>, tensor<64x3xf32>
}
