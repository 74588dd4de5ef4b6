// RUN: dtensor-opt %s --split-input-file --mesh x=2 -p dtensor-import,dtensor-fuse-cuts | filecheck %s

// Reflected ends are slices that are reversed; of one row each, the reversal does nothing.
// CHECK-LABEL: func.func @reflected
// CHECK: "stablehlo.reduce_window"(%arg0, %{{.*}}padding = dense<{{\[\[}}0, 0], [2, 1]]>
// CHECK: dtensor.ends = ["", "reflect"]
func.func @reflected(%a: tensor<3x16xf32>, %z: tensor<f32>) -> tensor<3x15xf32> {
  %low = stablehlo.slice %a [0:3, 1:3] : (tensor<3x16xf32>) -> tensor<3x2xf32>
  %turned = stablehlo.reverse %low, dims = [1] : tensor<3x2xf32>
  %0 = stablehlo.concatenate %turned, %a, dim = 1 : (tensor<3x2xf32>, tensor<3x16xf32>) -> tensor<3x18xf32>
  %high = stablehlo.slice %0 [0:3, 16:17] : (tensor<3x18xf32>) -> tensor<3x1xf32>
  %1 = stablehlo.concatenate %0, %high, dim = 1 : (tensor<3x18xf32>, tensor<3x1xf32>) -> tensor<3x19xf32>
  %2 = "stablehlo.reduce_window"(%1, %z) <{window_dimensions = array<i64: 1, 5>}> ({
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %s = stablehlo.add %l, %r : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<3x19xf32>, tensor<f32>) -> tensor<3x15xf32>
  return %2 : tensor<3x15xf32>
}

// -----

// An edge is repeated by way of another dimension; what is computed of each element is computed of
// the value.
// CHECK-LABEL: func.func @edge
// CHECK: %[[ABS:.*]] = stablehlo.abs %arg0 : tensor<3x16x4xf32>
// CHECK: stablehlo.convolution(%[[ABS]], %arg1) {{.*}}{pad = {{\[\[}}2, 1]]} {{.*}}dtensor.ends = ["edge"]
func.func @edge(%a: tensor<3x16x4xf32>, %k: tensor<4x4x6xf32>) -> tensor<3x16x6xf32> {
  %first = stablehlo.slice %a [0:3, 0:1, 0:4] : (tensor<3x16x4xf32>) -> tensor<3x1x4xf32>
  %more = stablehlo.broadcast_in_dim %first, dims = [0, 1, 3] : (tensor<3x1x4xf32>) -> tensor<3x1x2x4xf32>
  %low = stablehlo.reshape %more : (tensor<3x1x2x4xf32>) -> tensor<3x2x4xf32>
  %high = stablehlo.slice %a [0:3, 15:16, 0:4] : (tensor<3x16x4xf32>) -> tensor<3x1x4xf32>
  %0 = stablehlo.concatenate %low, %a, %high, dim = 1 : (tensor<3x2x4xf32>, tensor<3x16x4xf32>, tensor<3x1x4xf32>) -> tensor<3x19x4xf32>
  %1 = stablehlo.abs %0 : tensor<3x19x4xf32>
  %2 = stablehlo.convolution(%1, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<3x19x4xf32>, tensor<4x4x6xf32>) -> tensor<3x16x6xf32>
  return %2 : tensor<3x16x6xf32>
}

// -----

// What stands around is of another value, or in another order.
// CHECK-LABEL: func.func @others
// CHECK-NOT: dtensor.ends
func.func @others(%a: tensor<3x16x4xf32>, %b: tensor<3x16x4xf32>, %k: tensor<5x4x6xf32>) -> (tensor<3x14x6xf32>, tensor<3x14x6xf32>) {
  %last = stablehlo.slice %b [0:3, 14:16, 0:4] : (tensor<3x16x4xf32>) -> tensor<3x2x4xf32>
  %0 = stablehlo.concatenate %last, %a, dim = 1 : (tensor<3x2x4xf32>, tensor<3x16x4xf32>) -> tensor<3x18x4xf32>
  %1 = stablehlo.convolution(%0, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<3x18x4xf32>, tensor<5x4x6xf32>) -> tensor<3x14x6xf32>
  %first = stablehlo.slice %a [0:3, 0:2, 0:4] : (tensor<3x16x4xf32>) -> tensor<3x2x4xf32>
  %2 = stablehlo.concatenate %first, %a, dim = 1 : (tensor<3x2x4xf32>, tensor<3x16x4xf32>) -> tensor<3x18x4xf32>
  %3 = stablehlo.convolution(%2, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<3x18x4xf32>, tensor<5x4x6xf32>) -> tensor<3x14x6xf32>
  return %1, %3 : tensor<3x14x6xf32>, tensor<3x14x6xf32>
}
