// RUN: dtensor-opt %s --split-input-file --mesh x=2,y=4 -p dtensor-import,dtensor-fuse-cuts | filecheck %s

// Few elements of split dimensions are sliced one dimension at a time: the whole one first, then that
// which leaves the least. What two slices begin with is sliced once.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<32x64x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}, {}]>}) -> (tensor<6x3x2xf32>, tensor<4x16x2xf32>) {
  // CHECK-DAG: %[[THIRD:.*]] = stablehlo.slice %arg0 [0:32, 0:64, 3:5] : (tensor<32x64x5xf32>) -> tensor<32x64x2xf32>
  // CHECK-DAG: %[[SECOND:.*]] = stablehlo.slice %[[THIRD]] [0:32, 7:10, 0:2] : (tensor<32x64x2xf32>) -> tensor<32x3x2xf32>
  // CHECK-DAG: %[[CORNER:.*]] = stablehlo.slice %[[SECOND]] [1:7, 0:3, 0:2] : (tensor<32x3x2xf32>) -> tensor<6x3x2xf32>
  // CHECK-DAG: %[[ROWS:.*]] = stablehlo.slice %[[THIRD]] [2:30:8, 0:64, 0:2] : (tensor<32x64x2xf32>) -> tensor<4x64x2xf32>
  // CHECK-DAG: %[[GRID:.*]] = stablehlo.slice %[[ROWS]] [0:4, 1:64:4, 0:2] : (tensor<4x64x2xf32>) -> tensor<4x16x2xf32>
  %0 = stablehlo.slice %x [1:7, 7:10, 3:5] : (tensor<32x64x5xf32>) -> tensor<6x3x2xf32>
  %1 = stablehlo.slice %x [2:30:8, 1:64:4, 3:5] : (tensor<32x64x5xf32>) -> tensor<4x16x2xf32>
  // CHECK: return %[[CORNER]], %[[GRID]]
  return %0, %1 : tensor<6x3x2xf32>, tensor<4x16x2xf32>
}

// -----

// So are stretches that lie far from where the shards are. Not so where most is left of each, where
// the slice is one part of two, nor where none is split, or unevenly.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<32x64xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}]>}, %y: tensor<32x64xf32>, %z: tensor<32x63xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}]>}) -> (tensor<20x50xf32>, tensor<30x62xf32>, tensor<16x32xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  // CHECK: %[[ROWS:.*]] = stablehlo.slice %arg0 [12:32, 0:64]
  // CHECK: stablehlo.slice %[[ROWS]] [0:20, 14:64]
  %0 = stablehlo.slice %x [12:32, 14:64] : (tensor<32x64xf32>) -> tensor<20x50xf32>
  // CHECK: stablehlo.slice %arg0 [1:31, 1:63]
  // CHECK: stablehlo.slice %arg0 [0:16, 32:64]
  // CHECK: stablehlo.slice %arg1 [1:3, 1:4]
  %1 = stablehlo.slice %x [1:31, 1:63] : (tensor<32x64xf32>) -> tensor<30x62xf32>
  %2 = stablehlo.slice %x [0:16, 32:64] : (tensor<32x64xf32>) -> tensor<16x32xf32>
  %3 = stablehlo.slice %y [1:3, 1:4] : (tensor<32x64xf32>) -> tensor<2x3xf32>
  // CHECK: stablehlo.slice %arg2 [1:3, 1:4]
  %4 = stablehlo.slice %z [1:3, 1:4] : (tensor<32x63xf32>) -> tensor<2x3xf32>
  return %0, %1, %2, %3, %4 : tensor<20x50xf32>, tensor<30x62xf32>, tensor<16x32xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}

// -----

// Of joined parts those are dropped that nobody reads, with what made them; not a slice of two.
// CHECK-LABEL: func.func @main
// CHECK-NOT: chlo.top_k
// CHECK: %[[ONE:.*]] = stablehlo.slice %arg0 [1:3, 0:6:2] : (tensor<8x6xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: %[[JOINED:.*]] = stablehlo.concatenate %arg0, %arg1, dim = 0
// CHECK-NEXT: %[[BOTH:.*]] = stablehlo.slice %[[JOINED]] [7:9, 0:6]
// CHECK-NEXT: return %[[ONE]], %[[BOTH]]
func.func @main(%a: tensor<8x6xf32>, %b: tensor<4x6xf32>) -> (tensor<2x3xf32>, tensor<2x6xf32>) {
  %values, %indices = chlo.top_k(%b, k = 6) : tensor<4x6xf32> -> (tensor<4x6xf32>, tensor<4x6xi32>)
  %0 = stablehlo.concatenate %values, %a, dim = 0 : (tensor<4x6xf32>, tensor<8x6xf32>) -> tensor<12x6xf32>
  %1 = stablehlo.slice %0 [5:7, 0:6:2] : (tensor<12x6xf32>) -> tensor<2x3xf32>
  %2 = stablehlo.concatenate %a, %b, dim = 0 : (tensor<8x6xf32>, tensor<4x6xf32>) -> tensor<12x6xf32>
  %3 = stablehlo.slice %2 [7:9, 0:6] : (tensor<12x6xf32>) -> tensor<2x6xf32>
  return %1, %3 : tensor<2x3xf32>, tensor<2x6xf32>
}
