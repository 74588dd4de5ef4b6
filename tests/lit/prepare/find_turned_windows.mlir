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
