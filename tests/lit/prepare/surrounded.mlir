// RUN: dtensor-opt %s --split-input-file --mesh x=2 -p dtensor-import,dtensor-fuse-cuts | filecheck %s

// A convolution of what was put round a split value reads the value; the windows at both ends, which
// meet what stands around it, read the few elements that they need, of which each is sliced once.
// CHECK-LABEL: func.func @main
// CHECK-DAG: %[[LAST:.*]] = stablehlo.slice %arg0 [0:3, 14:16, 0:4]
// CHECK-DAG: %[[FIRST:.*]] = stablehlo.slice %arg0 [0:3, 0:2, 0:4]
// CHECK-DAG: %[[LOW:.*]] = stablehlo.convolution(%{{.*}}, %arg1) {{.*}} : (tensor<3x3x4xf32>, tensor<3x4x6xf32>) -> tensor<3x1x6xf32>
// CHECK-DAG: %[[MAIN:.*]] = stablehlo.convolution(%arg0, %arg1) {{.*}}{pad = {{\[\[}}1, 1]]{{.*}} : (tensor<3x16x4xf32>, tensor<3x4x6xf32>) -> tensor<3x16x6xf32>
// CHECK: "dtensor.splice"(%[[MAIN]], %[[LOW]], %{{.*}}) {counts = array<i64: 1, 14, 1>, dim = 1 : i64, sources = array<i64: 1, 0, 2>, starts = array<i64: 0, 1, 0>}
func.func @main(%a: tensor<3x16x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}, %k: tensor<3x4x6xf32>) -> tensor<3x16x6xf32> {
  %last = stablehlo.slice %a [0:3, 15:16, 0:4] : (tensor<3x16x4xf32>) -> tensor<3x1x4xf32>
  %first = stablehlo.slice %a [0:3, 0:1, 0:4] : (tensor<3x16x4xf32>) -> tensor<3x1x4xf32>
  %0 = stablehlo.concatenate %last, %a, %first, dim = 1 : (tensor<3x1x4xf32>, tensor<3x16x4xf32>, tensor<3x1x4xf32>) -> tensor<3x18x4xf32>
  %1 = stablehlo.convolution(%0, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<3x18x4xf32>, tensor<3x4x6xf32>) -> tensor<3x16x6xf32>
  return %1 : tensor<3x16x6xf32>
}

// -----

// Not of a value that no layout splits.
// CHECK-LABEL: func.func @main
// CHECK: stablehlo.concatenate
// CHECK: stablehlo.convolution
// CHECK-NOT: stablehlo.convolution
func.func @main(%a: tensor<3x16x4xf32>, %k: tensor<3x4x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {"x"}]>}) -> tensor<3x16x6xf32> {
  %last = stablehlo.slice %a [0:3, 15:16, 0:4] : (tensor<3x16x4xf32>) -> tensor<3x1x4xf32>
  %first = stablehlo.slice %a [0:3, 0:1, 0:4] : (tensor<3x16x4xf32>) -> tensor<3x1x4xf32>
  %0 = stablehlo.concatenate %last, %a, %first, dim = 1 : (tensor<3x1x4xf32>, tensor<3x16x4xf32>, tensor<3x1x4xf32>) -> tensor<3x18x4xf32>
  %1 = stablehlo.convolution(%0, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<3x18x4xf32>, tensor<3x4x6xf32>) -> tensor<3x16x6xf32>
  return %1 : tensor<3x16x6xf32>
}

// -----

// The gradient of the kernel is a sum: of the value, and of what stands on either side of it.
// CHECK-LABEL: func.func @main
// CHECK-DAG: %[[HIGH:.*]] = stablehlo.convolution({{.*}}{pad = {{\[\[}}2, 0]]{{.*}} : (tensor<4x1x3xf32>, tensor<1x3x6xf32>) -> tensor<3x4x6xf32>
// CHECK-DAG: %[[LOW:.*]] = stablehlo.convolution({{.*}}{pad = {{\[\[}}0, 2]]{{.*}} : (tensor<4x1x3xf32>, tensor<1x3x6xf32>) -> tensor<3x4x6xf32>
// CHECK-DAG: %[[MAIN:.*]] = stablehlo.convolution(%arg0, %arg1) {{.*}}{pad = {{\[\[}}1, 1]]
// CHECK: %[[SUM:.*]] = stablehlo.add %[[MAIN]], %[[LOW]]
// CHECK: stablehlo.add %[[SUM]], %[[HIGH]]
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
