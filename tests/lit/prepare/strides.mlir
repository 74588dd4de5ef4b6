// RUN: dtensor-opt %s --split-input-file --mesh x=8 --dtensor-import --dtensor-pad-uneven=planned=false | filecheck %s
// RUN: dtensor-opt %s --split-input-file --mesh x=8 --dtensor-import --dtensor-pad-uneven | filecheck %s --check-prefix=PLANNED

// Dimensions that devices divide, whose shards a stride does not: they stay, and what is left of them is padded.

// Shards of 3 rows have no whole windows of 2: 24 rows stay, and 12 become 16. Windows fetch what
// they read behind their shard; what scatters back reads 32 rows, and gives 24 again.

// CHECK-LABEL: func.func @windows(%arg0: tensor<24x601xf32>
// CHECK-SAME: -> (tensor<16x601xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {?}]>}, tensor<24x601xf32>
func.func @windows(%a: tensor<24x601xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<12x601xf32>, tensor<24x601xf32>) {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  // CHECK: %[[LONG:.*]] = stablehlo.pad %arg0, %{{.*}}, low = [0, 0], high = [8, 0], interior = [0, 0] {dtensor.fits}
  // CHECK: %[[POOLED:.*]] = "stablehlo.reduce_window"(%arg0
  // CHECK-SAME: padding = dense<{{\[\[}}0, 8], [0, 0]]>
  // CHECK: tensor<16x601xf32>
  %0 = "stablehlo.reduce_window"(%a, %low) <{window_dimensions = array<i64: 2, 1>, window_strides = array<i64: 2, 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %2 = stablehlo.maximum %x, %y : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }) : (tensor<24x601xf32>, tensor<f32>) -> tensor<12x601xf32>
  // CHECK: %[[MASKED:.*]] = stablehlo.select %{{.*}}, %[[POOLED]]
  // CHECK: %[[GIVEN:.*]] = "stablehlo.select_and_scatter"(%[[LONG]], %[[MASKED]]
  // CHECK: stablehlo.slice %[[GIVEN]] [0:24, 0:601] : (tensor<32x601xf32>) -> tensor<24x601xf32>
  %1 = "stablehlo.select_and_scatter"(%a, %0, %zero) <{window_dimensions = array<i64: 2, 1>, window_strides = array<i64: 2, 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %2 = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %2 : tensor<i1>
  }, {
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %2 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }) : (tensor<24x601xf32>, tensor<12x601xf32>, tensor<f32>) -> tensor<24x601xf32>
  return %0, %1 : tensor<12x601xf32>, tensor<24x601xf32>
}

// -----

// CHECK-LABEL: func.func @every_other(%arg0: tensor<40x301xf32>
// CHECK: %[[LONG:.*]] = stablehlo.pad %arg0, %{{.*}}, low = [0, 0], high = [8, 0], interior = [0, 0] {dtensor.fits}
// CHECK: stablehlo.slice %[[LONG]] [1:48:2, 0:301] : (tensor<48x301xf32>) -> tensor<24x301xf32>
func.func @every_other(%a: tensor<40x301xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<20x301xf32> {
  %0 = stablehlo.slice %a [1:40:2, 0:301] : (tensor<40x301xf32>) -> tensor<20x301xf32>
  return %0 : tensor<20x301xf32>
}

// -----

// So does a reshape of which one side divides.

// CHECK-LABEL: func.func @pairs(%arg0: tensor<24x301xf32>
// CHECK: %[[LONG:.*]] = stablehlo.pad %arg0, %{{.*}}, low = [0, 0], high = [8, 0], interior = [0, 0] {dtensor.fits}
// CHECK: stablehlo.reshape %[[LONG]] : (tensor<32x301xf32>) -> tensor<16x2x301xf32>
func.func @pairs(%a: tensor<24x301xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<12x2x301xf32> {
  %0 = stablehlo.reshape %a : (tensor<24x301xf32>) -> tensor<12x2x301xf32>
  return %0 : tensor<12x2x301xf32>
}

// -----

// Where columns take the axis for less, no row is padded.

// PLANNED-LABEL: func.func @columns(%arg0: tensor<24x304xf32>
// PLANNED: stablehlo.slice %arg0 [0:24:2, 0:304] : (tensor<24x304xf32>) -> tensor<12x304xf32>
func.func @columns(%a: tensor<24x304xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<12x304xf32> {
  %0 = stablehlo.slice %a [0:24:2, 0:304] : (tensor<24x304xf32>) -> tensor<12x304xf32>
  return %0 : tensor<12x304xf32>
}
