// RUN: dtensor-opt %s --split-input-file -p dtensor-fuse-cuts | filecheck %s

// The gradient of a roll adds two values with zeros around them, of which each element is zero in one.

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<8x3xf32>, %b: tensor<8x3xf32>) -> tensor<8x3xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.slice %a [0:1, 0:3] : (tensor<8x3xf32>) -> tensor<1x3xf32>
  %1 = stablehlo.slice %a [1:8, 0:3] : (tensor<8x3xf32>) -> tensor<7x3xf32>
  %2 = stablehlo.pad %0, %zero, low = [7, 0], high = [0, 0], interior = [0, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<8x3xf32>
  %3 = stablehlo.pad %1, %zero, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<7x3xf32>, tensor<f32>) -> tensor<8x3xf32>
  // CHECK: %[[ROLL:.*]] = "dtensor.splice"(%arg0) {counts = array<i64: 7, 1>, dim = 0 : i64, sources = array<i64: 0, 0>, starts = array<i64: 1, 0>}
  // A sum of -0 and 0 is 0.
  // CHECK: %[[SUM:.*]] = "dtensor.plus_zero"(%[[ROLL]])
  // CHECK: stablehlo.add %arg1, %[[SUM]]
  %4 = stablehlo.add %b, %2 : tensor<8x3xf32>
  %5 = stablehlo.add %4, %3 : tensor<8x3xf32>
  return %5 : tensor<8x3xf32>
}

// -----

// Values that overlap are added.

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<8x3xi32>) -> tensor<10x3xi32> {
  // CHECK-NOT: stablehlo.concatenate
  // CHECK: stablehlo.add
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %2 = stablehlo.pad %a, %zero, low = [2, 0], high = [0, 0], interior = [0, 0] : (tensor<8x3xi32>, tensor<i32>) -> tensor<10x3xi32>
  %3 = stablehlo.pad %a, %zero, low = [0, 0], high = [2, 0], interior = [0, 0] : (tensor<8x3xi32>, tensor<i32>) -> tensor<10x3xi32>
  %4 = stablehlo.add %2, %3 : tensor<10x3xi32>
  return %4 : tensor<10x3xi32>
}
