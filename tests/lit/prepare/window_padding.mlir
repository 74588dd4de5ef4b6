// RUN: dtensor-opt %s --split-input-file --mesh x=2 -p dtensor-import,dtensor-fuse-cuts | filecheck %s

// A convolution pads with zeros itself, and leaves out the windows that its reader cuts off.
// CHECK-LABEL: func.func @main
// CHECK-NOT: stablehlo.pad
// CHECK: stablehlo.convolution(%arg0, %arg1)
// CHECK-SAME: window = {stride = [2], pad = {{\[\[}}3, 0]]}
// CHECK-SAME: (tensor<3x16x4xf32>, tensor<5x4x6xf32>) -> tensor<3x8x6xf32>
// CHECK-NOT: stablehlo.slice
func.func @main(%a: tensor<3x16x4xf32>, %k: tensor<5x4x6xf32>) -> tensor<3x8x6xf32> {
  %integer = stablehlo.constant dense<0> : tensor<i32>
  %zero = stablehlo.convert %integer : (tensor<i32>) -> tensor<f32>
  %0 = stablehlo.pad %a, %zero, low = [0, 5, 0], high = [0, 2, 0], interior = [0, 0, 0] : (tensor<3x16x4xf32>, tensor<f32>) -> tensor<3x23x4xf32>
  %1 = stablehlo.convolution(%0, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<3x23x4xf32>, tensor<5x4x6xf32>) -> tensor<3x10x6xf32>
  %2 = stablehlo.slice %1 [0:3, 1:9, 0:6] : (tensor<3x10x6xf32>) -> tensor<3x8x6xf32>
  return %2 : tensor<3x8x6xf32>
}

// -----

// The gradient of an average spreads what it got: elements with gaps.
// CHECK-LABEL: func.func @main
// CHECK-NOT: stablehlo.pad
// CHECK: "stablehlo.reduce_window"(%arg0, %{{.*}}) <{base_dilations = array<i64: 2, 1>, padding = dense<{{\[\[}}1, 1], [0, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 2, 1>}>
func.func @main(%a: tensor<8x3xf32>) -> tensor<16x3xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.pad %a, %zero, low = [1, 0], high = [1, 0], interior = [1, 0] : (tensor<8x3xf32>, tensor<f32>) -> tensor<17x3xf32>
  %1 = "stablehlo.reduce_window"(%0, %zero) <{window_dimensions = array<i64: 2, 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %2 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }) : (tensor<17x3xf32>, tensor<f32>) -> tensor<16x3xf32>
  return %1 : tensor<16x3xf32>
}

// -----

// Not where the padding holds something else than windows take theirs for: the maximum with 0.
// CHECK-LABEL: func.func @main
// CHECK: stablehlo.pad
func.func @main(%a: tensor<8x3xf32>) -> tensor<8x3xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.pad %a, %zero, low = [1, 0], high = [0, 0], interior = [0, 0] : (tensor<8x3xf32>, tensor<f32>) -> tensor<9x3xf32>
  %1 = "stablehlo.reduce_window"(%0, %low) <{window_dimensions = array<i64: 2, 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %2 = stablehlo.maximum %x, %y : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }) : (tensor<9x3xf32>, tensor<f32>) -> tensor<8x3xf32>
  return %1 : tensor<8x3xf32>
}

// -----

// Nor where what is padded is no place of a window: features.
// CHECK-LABEL: func.func @main
// CHECK: stablehlo.pad
func.func @main(%a: tensor<3x16x4xf32>, %k: tensor<5x6x6xf32>) -> tensor<3x12x6xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.pad %a, %zero, low = [0, 0, 1], high = [0, 0, 1], interior = [0, 0, 0] : (tensor<3x16x4xf32>, tensor<f32>) -> tensor<3x16x6xf32>
  %1 = stablehlo.convolution(%0, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<3x16x6xf32>, tensor<5x6x6xf32>) -> tensor<3x12x6xf32>
  return %1 : tensor<3x12x6xf32>
}

// -----

// Nor where the numbers differ, however little.
// CHECK-LABEL: func.func @main
// CHECK: stablehlo.pad
func.func @main(%a: tensor<8x3xi64>) -> tensor<8x3xi64> {
  %held = stablehlo.constant dense<9223372036854775806> : tensor<i64>
  %most = stablehlo.constant dense<9223372036854775807> : tensor<i64>
  %0 = stablehlo.pad %a, %held, low = [1, 0], high = [0, 0], interior = [0, 0] : (tensor<8x3xi64>, tensor<i64>) -> tensor<9x3xi64>
  %1 = "stablehlo.reduce_window"(%0, %most) <{window_dimensions = array<i64: 2, 1>}> ({
  ^bb0(%x: tensor<i64>, %y: tensor<i64>):
    %2 = stablehlo.minimum %x, %y : tensor<i64>
    stablehlo.return %2 : tensor<i64>
  }) : (tensor<9x3xi64>, tensor<i64>) -> tensor<8x3xi64>
  return %1 : tensor<8x3xi64>
}

// -----

// As jnp.convolve writes it: dimensions of one element come before the windows and go behind them.

// CHECK-LABEL: func.func @beside_ones
// CHECK-NOT: stablehlo.pad
// CHECK: %[[READ:.*]] = stablehlo.reshape %arg0 : (tensor<32xf32>) -> tensor<1x1x32xf32>
// CHECK: %[[FOUND:.*]] = stablehlo.convolution(%[[READ]], %arg1) {{.*}}pad = {{\[\[}}2, 0]]
// CHECK: stablehlo.reshape %[[FOUND]] : (tensor<1x1x30xf32>) -> tensor<30xf32>
func.func @beside_ones(%x: tensor<32xf32>, %k: tensor<1x1x5xf32>) -> tensor<30xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.pad %x, %zero, low = [4], high = [0], interior = [0] : (tensor<32xf32>, tensor<f32>) -> tensor<36xf32>
  %1 = stablehlo.reshape %0 : (tensor<36xf32>) -> tensor<1x1x36xf32>
  %2 = stablehlo.convolution(%1, %k) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x1x36xf32>, tensor<1x1x5xf32>) -> tensor<1x1x32xf32>
  %3 = stablehlo.reshape %2 : (tensor<1x1x32xf32>) -> tensor<32xf32>
  %4 = stablehlo.slice %3 [2:32] : (tensor<32xf32>) -> tensor<30xf32>
  return %4 : tensor<30xf32>
}
