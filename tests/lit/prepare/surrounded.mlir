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

// Slices of what windows gave are windows of slices: the middle as long as what is split, and ends.
// CHECK-LABEL: func.func @main
// CHECK-DAG: stablehlo.convolution(%arg0, %arg1) {{.*}}{pad = {{\[\[}}1, 1]]{{.*}} -> tensor<3x16x6xf32>
// CHECK-DAG: stablehlo.convolution(%{{.*}}, %arg1) {{.*}}{pad = {{\[\[}}2, 0]]{{.*}} : (tensor<3x1x4xf32>, tensor<3x4x6xf32>) -> tensor<3x1x6xf32>
// CHECK-DAG: stablehlo.convolution(%{{.*}}, %arg1) {{.*}}{pad = {{\[\[}}0, 2]]{{.*}} : (tensor<3x1x4xf32>, tensor<3x4x6xf32>) -> tensor<3x1x6xf32>
func.func @main(%a: tensor<3x16x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}, %k: tensor<3x4x6xf32>) -> (tensor<3x16x6xf32>, tensor<3x1x6xf32>) {
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[2, 2]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<3x16x4xf32>, tensor<3x4x6xf32>) -> tensor<3x18x6xf32>
  %1 = stablehlo.slice %0 [0:3, 1:17, 0:6] : (tensor<3x18x6xf32>) -> tensor<3x16x6xf32>
  %2 = stablehlo.slice %0 [0:3, 0:1, 0:6] : (tensor<3x18x6xf32>) -> tensor<3x1x6xf32>
  %3 = stablehlo.slice %0 [0:3, 17:18, 0:6] : (tensor<3x18x6xf32>) -> tensor<3x1x6xf32>
  %4 = stablehlo.add %2, %3 : tensor<3x1x6xf32>
  return %1, %4 : tensor<3x16x6xf32>, tensor<3x1x6xf32>
}
