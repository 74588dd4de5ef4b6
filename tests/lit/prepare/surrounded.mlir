// RUN: dtensor-opt %s --split-input-file --mesh x=2 -p dtensor-import,dtensor-fuse-cuts | filecheck %s

// A convolution of what was put round a value reads the value, and says what pads it.
// CHECK-LABEL: func.func @main
// CHECK-NOT: stablehlo.concatenate
// CHECK: stablehlo.convolution(%arg0, %arg1) {{.*}}{pad = {{\[\[}}1, 1]]} {{.*}}dtensor.ends = ["wrap"]{{.*}} : (tensor<3x16x4xf32>, tensor<3x4x6xf32>) -> tensor<3x16x6xf32>
func.func @main(%a: tensor<3x16x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}, %k: tensor<3x4x6xf32>) -> tensor<3x16x6xf32> {
  %last = stablehlo.slice %a [0:3, 15:16, 0:4] : (tensor<3x16x4xf32>) -> tensor<3x1x4xf32>
  %first = stablehlo.slice %a [0:3, 0:1, 0:4] : (tensor<3x16x4xf32>) -> tensor<3x1x4xf32>
  %0 = stablehlo.concatenate %last, %a, %first, dim = 1 : (tensor<3x1x4xf32>, tensor<3x16x4xf32>, tensor<3x1x4xf32>) -> tensor<3x18x4xf32>
  %1 = stablehlo.convolution(%0, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<3x18x4xf32>, tensor<3x4x6xf32>) -> tensor<3x16x6xf32>
  return %1 : tensor<3x16x6xf32>
}

// -----

// Of a value whose dimension no layout splits too: it is padded again when that is known.
// CHECK-LABEL: func.func @main
// CHECK-NOT: stablehlo.concatenate
// CHECK: stablehlo.convolution(%arg0, %arg1) {{.*}}dtensor.ends = ["wrap"]
func.func @main(%a: tensor<3x16x4xf32>, %k: tensor<3x4x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {"x"}]>}) -> tensor<3x16x6xf32> {
  %last = stablehlo.slice %a [0:3, 15:16, 0:4] : (tensor<3x16x4xf32>) -> tensor<3x1x4xf32>
  %first = stablehlo.slice %a [0:3, 0:1, 0:4] : (tensor<3x16x4xf32>) -> tensor<3x1x4xf32>
  %0 = stablehlo.concatenate %last, %a, %first, dim = 1 : (tensor<3x1x4xf32>, tensor<3x16x4xf32>, tensor<3x1x4xf32>) -> tensor<3x18x4xf32>
  %1 = stablehlo.convolution(%0, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<3x18x4xf32>, tensor<3x4x6xf32>) -> tensor<3x16x6xf32>
  return %1 : tensor<3x16x6xf32>
}

// -----

// The gradient of the kernel reads the value too.
// CHECK-LABEL: func.func @main
// CHECK-NOT: stablehlo.concatenate
// CHECK: stablehlo.convolution(%arg0, %arg1) {{.*}}{pad = {{\[\[}}1, 1]]} {{.*}}dtensor.ends = ["wrap"]{{.*}} : (tensor<4x16x3xf32>, tensor<16x3x6xf32>) -> tensor<3x4x6xf32>
func.func @main(%a: tensor<4x16x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}, %g: tensor<16x3x6xf32>) -> tensor<3x4x6xf32> {
  %last = stablehlo.slice %a [0:4, 15:16, 0:3] : (tensor<4x16x3xf32>) -> tensor<4x1x3xf32>
  %first = stablehlo.slice %a [0:4, 0:1, 0:3] : (tensor<4x16x3xf32>) -> tensor<4x1x3xf32>
  %0 = stablehlo.concatenate %last, %a, %first, dim = 1 : (tensor<4x1x3xf32>, tensor<4x16x3xf32>, tensor<4x1x3xf32>) -> tensor<4x18x3xf32>
  %1 = stablehlo.convolution(%0, %g) dim_numbers = [b, 0, f]x[0, i, o]->[0, b, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<4x18x3xf32>, tensor<16x3x6xf32>) -> tensor<3x4x6xf32>
  return %1 : tensor<3x4x6xf32>
}

// -----

// The gradient of the value: what windows give at the ends goes round, and so do the windows.
// CHECK-LABEL: func.func @main
// CHECK: %[[SUM:.*]] = stablehlo.convolution(%arg0, %arg1) {{.*}}{pad = {{\[\[}}1, 1]]{{.*}}dtensor.ends = ["wrap"]{{.*}} -> tensor<3x16x6xf32>
// CHECK: return %[[SUM]]
func.func @main(%a: tensor<3x16x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}, %k: tensor<3x4x6xf32>) -> tensor<3x16x6xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[2, 2]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<3x16x4xf32>, tensor<3x4x6xf32>) -> tensor<3x18x6xf32>
  %1 = stablehlo.slice %0 [0:3, 1:17, 0:6] : (tensor<3x18x6xf32>) -> tensor<3x16x6xf32>
  %2 = stablehlo.slice %0 [0:3, 0:1, 0:6] : (tensor<3x18x6xf32>) -> tensor<3x1x6xf32>
  %3 = stablehlo.slice %0 [0:3, 17:18, 0:6] : (tensor<3x18x6xf32>) -> tensor<3x1x6xf32>
  %4 = stablehlo.pad %2, %zero, low = [0, 15, 0], high = [0, 0, 0], interior = [0, 0, 0] : (tensor<3x1x6xf32>, tensor<f32>) -> tensor<3x16x6xf32>
  %5 = stablehlo.pad %3, %zero, low = [0, 0, 0], high = [0, 15, 0], interior = [0, 0, 0] : (tensor<3x1x6xf32>, tensor<f32>) -> tensor<3x16x6xf32>
  %6 = stablehlo.add %1, %5 : tensor<3x16x6xf32>
  %7 = stablehlo.add %6, %4 : tensor<3x16x6xf32>
  return %7 : tensor<3x16x6xf32>
}

// -----

// Of an edge, what is given at either end is summed up; what adds up no elements at all is zero.
// CHECK-LABEL: func.func @main
// CHECK: %[[SUM:.*]] = stablehlo.convolution(%arg0, %arg1) {{.*}}{pad = {{\[\[}}1, 2]]{{.*}}dtensor.folds = ["edge by 2 and 1"]{{.*}} -> tensor<3x16x6xf32>
// CHECK: return %[[SUM]]
func.func @main(%a: tensor<3x16x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}, %k: tensor<4x4x6xf32>) -> tensor<3x16x6xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[3, 3]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<3x16x4xf32>, tensor<4x4x6xf32>) -> tensor<3x19x6xf32>
  %none = stablehlo.slice %0 [0:3, 0:19, 6:6] : (tensor<3x19x6xf32>) -> tensor<3x19x0xf32>
  %sum = stablehlo.reduce(%none init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<3x19x0xf32>, tensor<f32>) -> tensor<3x19xf32>
  %back = stablehlo.broadcast_in_dim %sum, dims = [0, 1] : (tensor<3x19xf32>) -> tensor<3x19x1xf32>
  %nothing = stablehlo.pad %back, %zero, low = [0, 0, 5], high = [0, 0, 0], interior = [0, 0, 0] : (tensor<3x19x1xf32>, tensor<f32>) -> tensor<3x19x6xf32>
  %all = stablehlo.add %0, %nothing : tensor<3x19x6xf32>
  %1 = stablehlo.slice %all [0:3, 2:18, 0:6] : (tensor<3x19x6xf32>) -> tensor<3x16x6xf32>
  %2 = stablehlo.slice %all [0:3, 0:2, 0:6] : (tensor<3x19x6xf32>) -> tensor<3x2x6xf32>
  %3 = stablehlo.slice %all [0:3, 18:19, 0:6] : (tensor<3x19x6xf32>) -> tensor<3x1x6xf32>
  %apart = stablehlo.reshape %2 : (tensor<3x2x6xf32>) -> tensor<3x1x2x6xf32>
  %summed = stablehlo.reduce(%apart init: %zero) applies stablehlo.add across dimensions = [1, 2] : (tensor<3x1x2x6xf32>, tensor<f32>) -> tensor<3x6xf32>
  %one = stablehlo.broadcast_in_dim %summed, dims = [0, 2] : (tensor<3x6xf32>) -> tensor<3x1x6xf32>
  %4 = stablehlo.pad %one, %zero, low = [0, 0, 0], high = [0, 15, 0], interior = [0, 0, 0] : (tensor<3x1x6xf32>, tensor<f32>) -> tensor<3x16x6xf32>
  %5 = stablehlo.pad %3, %zero, low = [0, 15, 0], high = [0, 0, 0], interior = [0, 0, 0] : (tensor<3x1x6xf32>, tensor<f32>) -> tensor<3x16x6xf32>
  %6 = stablehlo.add %1, %5 : tensor<3x16x6xf32>
  %7 = stablehlo.add %6, %4 : tensor<3x16x6xf32>
  return %7 : tensor<3x16x6xf32>
}

// -----

// The gradient of that gradient cuts with pads of fewer elements than none, which are slices.
// CHECK-LABEL: func.func @main
// CHECK-NOT: stablehlo.pad
// CHECK: stablehlo.convolution(%arg0, %arg1) {{.*}}{pad = {{\[\[}}2, 1]]} {{.*}}dtensor.ends = ["wrap"]
func.func @main(%a: tensor<3x16x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}, %k: tensor<4x4x6xf32>) -> tensor<3x16x6xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %last = stablehlo.pad %a, %zero, low = [0, -14, 0], high = [0, 0, 0], interior = [0, 0, 0] : (tensor<3x16x4xf32>, tensor<f32>) -> tensor<3x2x4xf32>
  %first = stablehlo.pad %a, %zero, low = [0, 0, 0], high = [0, -15, 0], interior = [0, 0, 0] : (tensor<3x16x4xf32>, tensor<f32>) -> tensor<3x1x4xf32>
  %0 = stablehlo.concatenate %last, %a, %first, dim = 1 : (tensor<3x2x4xf32>, tensor<3x16x4xf32>, tensor<3x1x4xf32>) -> tensor<3x19x4xf32>
  %1 = stablehlo.convolution(%0, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<3x19x4xf32>, tensor<4x4x6xf32>) -> tensor<3x16x6xf32>
  return %1 : tensor<3x16x6xf32>
}
