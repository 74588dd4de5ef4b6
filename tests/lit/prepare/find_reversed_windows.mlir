// RUN: dtensor-opt %s --split-input-file --dtensor-find-forms | filecheck %s

// Sums from the end on, as sums from the start of what was reversed, reversed again.

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<7x3xf32>) -> tensor<7x3xf32> {
  // CHECK-NOT: stablehlo.reverse
  // CHECK: %[[WORK:.*]] = stablehlo.exponential %arg0
  // CHECK: %[[SUMS:.*]] = "stablehlo.reduce_window"(%[[WORK]], %{{.*}}) <{padding = dense<{{\[}}[0, 6], [1, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 7, 2>}>
  // CHECK: return %[[SUMS]]
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reverse %x, dims = [0] : tensor<7x3xf32>
  %1 = stablehlo.exponential %0 : tensor<7x3xf32>
  %2 = "stablehlo.reduce_window"(%1, %zero) <{padding = dense<[[6, 0], [1, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 7, 2>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %5 = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %5 : tensor<f32>
  }) : (tensor<7x3xf32>, tensor<f32>) -> tensor<7x3xf32>
  %3 = stablehlo.reverse %2, dims = [0] : tensor<7x3xf32>
  return %3 : tensor<7x3xf32>
}

// -----

// Windows over one number alone need no reversal before them either.

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<7x3xf32>) -> tensor<7x3xf32> {
  // CHECK-NOT: stablehlo.reverse
  // CHECK: %[[TWOS:.*]] = stablehlo.constant dense<2.0{{.*}}> : tensor<7x3xf32>
  // CHECK: %[[SUMS:.*]] = "stablehlo.reduce_window"(%[[TWOS]], %{{.*}}) <{padding = dense<{{\[}}[0, 3], [0, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 4, 1>}>
  // CHECK: stablehlo.add %[[SUMS]], %arg0
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %twos = stablehlo.constant dense<2.0> : tensor<7x3xf32>
  %0 = "stablehlo.reduce_window"(%twos, %zero) <{padding = dense<[[3, 0], [0, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 4, 1>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %3 = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %3 : tensor<f32>
  }) : (tensor<7x3xf32>, tensor<f32>) -> tensor<7x3xf32>
  %1 = stablehlo.reverse %0, dims = [0] : tensor<7x3xf32>
  %2 = stablehlo.add %1, %x : tensor<7x3xf32>
  return %2 : tensor<7x3xf32>
}

// -----

// A body that tells the first of two elements from the second stays, and so does what is read both
// ways.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<7x3xf32>) -> (tensor<7x3xf32>, tensor<7x3xf32>, tensor<7x3xf32>) {
  // CHECK: %[[TURNED:.*]] = stablehlo.reverse %arg0, dims = [0]
  // CHECK: "stablehlo.reduce_window"(%[[TURNED]]
  // CHECK: stablehlo.reverse
  // CHECK: "stablehlo.reduce_window"(%[[TURNED]]
  // CHECK: stablehlo.reverse
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reverse %x, dims = [0] : tensor<7x3xf32>
  %1 = "stablehlo.reduce_window"(%0, %zero) <{padding = dense<[[6, 0], [0, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 7, 1>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    stablehlo.return %q : tensor<f32>
  }) : (tensor<7x3xf32>, tensor<f32>) -> tensor<7x3xf32>
  %2 = stablehlo.reverse %1, dims = [0] : tensor<7x3xf32>
  %3 = "stablehlo.reduce_window"(%0, %zero) <{padding = dense<[[6, 0], [0, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 7, 1>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %5 = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %5 : tensor<f32>
  }) : (tensor<7x3xf32>, tensor<f32>) -> tensor<7x3xf32>
  %4 = stablehlo.reverse %3, dims = [0] : tensor<7x3xf32>
  return %2, %3, %4 : tensor<7x3xf32>, tensor<7x3xf32>, tensor<7x3xf32>
}

// -----

// A convolution of what is reversed, with dimensions of one element around, has its kernel reversed.

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<8x3xf32>, %k: tensor<1x1x4x1xf32>) -> tensor<9x3xf32> {
  // CHECK-DAG: %[[KERNEL:.*]] = stablehlo.reverse %arg1, dims = [2] : tensor<1x1x4x1xf32>
  // CHECK-DAG: %[[IMAGE:.*]] = stablehlo.reshape %arg0 : (tensor<8x3xf32>) -> tensor<1x1x8x3xf32>
  // CHECK: %[[SUMS:.*]] = stablehlo.convolution(%[[IMAGE]], %[[KERNEL]])
  // CHECK-SAME: pad = {{\[}}[1, 3], [0, 0]]
  // CHECK: %[[RESULT:.*]] = stablehlo.reshape %[[SUMS]]
  // CHECK: return %[[RESULT]]
  %0 = stablehlo.reverse %x, dims = [0] : tensor<8x3xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [2, 3] : (tensor<8x3xf32>) -> tensor<1x1x8x3xf32>
  %2 = stablehlo.convolution(%1, %k) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[3, 1], [0, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x1x8x3xf32>, tensor<1x1x4x1xf32>) -> tensor<1x1x9x3xf32>
  %3 = stablehlo.reshape %2 : (tensor<1x1x9x3xf32>) -> tensor<9x3xf32>
  %4 = stablehlo.reverse %3, dims = [0] : tensor<9x3xf32>
  return %4 : tensor<9x3xf32>
}

// -----

// One of every second window stays, and so does one of which other dimensions are reversed after.

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<8x3xf32>, %k: tensor<1x1x4x1xf32>) -> (tensor<4x3xf32>, tensor<9x3xf32>) {
  // CHECK: %[[TURNED:.*]] = stablehlo.reverse %arg0, dims = [0] : tensor<8x3xf32>
  // CHECK: %[[FIRST:.*]] = stablehlo.reverse %{{.*}}, dims = [0] : tensor<4x3xf32>
  // CHECK: %[[SECOND:.*]] = stablehlo.reverse %{{.*}}, dims = [1] : tensor<9x3xf32>
  // CHECK: return %[[FIRST]], %[[SECOND]]
  %0 = stablehlo.reverse %x, dims = [0] : tensor<8x3xf32>
  %1 = stablehlo.reshape %0 : (tensor<8x3xf32>) -> tensor<1x1x8x3xf32>
  %2 = stablehlo.convolution(%1, %k) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [2, 1], pad = [[2, 1], [0, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x1x8x3xf32>, tensor<1x1x4x1xf32>) -> tensor<1x1x4x3xf32>
  %3 = stablehlo.reshape %2 : (tensor<1x1x4x3xf32>) -> tensor<4x3xf32>
  %4 = stablehlo.reverse %3, dims = [0] : tensor<4x3xf32>
  %5 = stablehlo.convolution(%1, %k) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[3, 1], [0, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x1x8x3xf32>, tensor<1x1x4x1xf32>) -> tensor<1x1x9x3xf32>
  %6 = stablehlo.reshape %5 : (tensor<1x1x9x3xf32>) -> tensor<9x3xf32>
  %7 = stablehlo.reverse %6, dims = [1] : tensor<9x3xf32>
  return %4, %7 : tensor<4x3xf32>, tensor<9x3xf32>
}
