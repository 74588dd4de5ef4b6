// RUN: dtensor-opt %s --split-input-file --mesh x=2 -p dtensor-import,dtensor-fuse-cuts | filecheck %s

// The padding of a pool's gradient goes into it, with the value that it holds, so that no value has
// a size that no axis divides.
// CHECK-LABEL: func.func @main
// CHECK-NOT: stablehlo.pad
// CHECK: "stablehlo.select_and_scatter"(%arg0, %arg1, %{{.*}}) <{padding = dense<{{\[\[}}0, 1], [0, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 3, 1>, window_strides = array<i64: 2, 1>}>
// CHECK: {dtensor.fill = dense<0xFF800000> : tensor<f32>} : (tensor<8x16xf32>, tensor<4x16xf32>, tensor<f32>) -> tensor<8x16xf32>
// CHECK-NOT: stablehlo.slice
func.func @main(%a: tensor<8x16xf32>, %s: tensor<4x16xf32>) -> tensor<8x16xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.pad %a, %low, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<8x16xf32>, tensor<f32>) -> tensor<9x16xf32>
  %1 = "stablehlo.select_and_scatter"(%0, %s, %zero) <{window_dimensions = array<i64: 3, 1>, window_strides = array<i64: 2, 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %2 = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %2 : tensor<i1>
  }, {
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %2 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }) : (tensor<9x16xf32>, tensor<4x16xf32>, tensor<f32>) -> tensor<9x16xf32>
  %3 = stablehlo.slice %1 [0:8, 0:16] : (tensor<9x16xf32>) -> tensor<8x16xf32>
  return %3 : tensor<8x16xf32>
}

// -----

// Not where something else is sliced off.
// CHECK-LABEL: func.func @main
// CHECK: stablehlo.pad
// CHECK-NOT: dtensor.fill
// CHECK: stablehlo.slice
func.func @main(%a: tensor<8x16xf32>, %s: tensor<4x16xf32>) -> tensor<8x16xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.pad %a, %low, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<8x16xf32>, tensor<f32>) -> tensor<9x16xf32>
  %1 = "stablehlo.select_and_scatter"(%0, %s, %zero) <{window_dimensions = array<i64: 3, 1>, window_strides = array<i64: 2, 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %2 = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %2 : tensor<i1>
  }, {
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %2 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }) : (tensor<9x16xf32>, tensor<4x16xf32>, tensor<f32>) -> tensor<9x16xf32>
  %3 = stablehlo.slice %1 [1:9, 0:16] : (tensor<9x16xf32>) -> tensor<8x16xf32>
  return %3 : tensor<8x16xf32>
}
