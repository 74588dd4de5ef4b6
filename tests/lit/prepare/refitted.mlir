// RUN: dtensor-opt %s --split-input-file --mesh x=2,y=4 --dtensor-import --dtensor-pad-uneven=planned=false | filecheck %s
// RUN: dtensor-opt %s --split-input-file --mesh x=2,y=4 --dtensor-import --dtensor-pad-uneven | filecheck %s --check-prefix=PLANNED

// What would have to be longer than its layout says at the border reads the true size; or becomes
// longer as the program begins, where a plan takes less.

// CHECK-LABEL: func.func @too_long
// PLANNED-LABEL: func.func @too_long
func.func @too_long(%a: tensor<6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>}, %v: tensor<f32>) -> tensor<9xf32> {
  // CHECK: %[[TRUE:.*]] = stablehlo.slice %arg0 [0:6]
  // CHECK: stablehlo.pad %[[TRUE]], %arg1, low = [0], high = [3], interior = [0] : (tensor<6xf32>, tensor<f32>) -> tensor<9xf32>
  // PLANNED: %[[LONG:.*]] = stablehlo.pad %arg0, %{{.*}}, low = [0], high = [4], interior = [0] {dtensor.fits} : (tensor<8xf32>, tensor<f32>) -> tensor<12xf32>
  // PLANNED: stablehlo.pad %{{.*}}, %arg1, low = [0], high = [0], interior = [0] : (tensor<12xf32>, tensor<f32>) -> tensor<12xf32>
  %0 = stablehlo.pad %a, %v, low = [0], high = [3], interior = [0] : (tensor<6xf32>, tensor<f32>) -> tensor<9xf32>
  return %0 : tensor<9xf32>
}

// -----

// Of 25 pairs in 4 shards, whole ones are in each if there are 28.

// CHECK-LABEL: func.func @pairs
// PLANNED-LABEL: func.func @pairs
func.func @pairs(%a: tensor<50x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}) -> tensor<25x2x6xf32> {
  // CHECK-NOT: stablehlo.pad
  // CHECK: stablehlo.reshape %arg0 : (tensor<52x6xf32>) -> tensor<26x2x6xf32>
  // PLANNED: %[[LONG:.*]] = stablehlo.pad %arg0, %{{.*}}, low = [0, 0], high = [4, 0], interior = [0, 0] {dtensor.fits} : (tensor<52x6xf32>, tensor<f32>) -> tensor<56x6xf32>
  // PLANNED: stablehlo.reshape %[[LONG]] : (tensor<56x6xf32>) -> tensor<28x2x6xf32>
  %0 = stablehlo.reshape %a : (tensor<50x6xf32>) -> tensor<25x2x6xf32>
  return %0 : tensor<25x2x6xf32>
}

// -----

// What has another length inside anyway has whole rows in each shard: 12 of 6, and not 10. It would be
// too much longer where rows are few.

// CHECK-LABEL: func.func @rows_divide
func.func @rows_divide(%a: tensor<54xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>}, %b: tensor<30xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>}) -> (tensor<9x6xf32>, tensor<5x6xf32>) {
  // CHECK: stablehlo.reshape %{{.*}} : (tensor<72xf32>) -> tensor<12x6xf32>
  // CHECK: stablehlo.reshape %{{.*}} : (tensor<36xf32>) -> tensor<6x6xf32>
  %0 = stablehlo.reshape %a : (tensor<54xf32>) -> tensor<9x6xf32>
  %1 = stablehlo.reshape %b : (tensor<30xf32>) -> tensor<5x6xf32>
  return %0, %1 : tensor<9x6xf32>, tensor<5x6xf32>
}
