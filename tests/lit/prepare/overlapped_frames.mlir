// RUN: dtensor-opt %s --split-input-file -p dtensor-import,dtensor-fuse-cuts | filecheck %s

// Parts of frames that a cut of what was laid one after another moves by a row each, and their sum.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<5x3x8x2xf32>) -> tensor<5x20xf32> {
  // CHECK: %[[FIRST:.*]] = stablehlo.slice %arg0 [0:5, 0:1, 0:8, 0:2]
  // CHECK: %[[ROWS:.*]] = stablehlo.reshape %[[FIRST]] : (tensor<5x1x8x2xf32>) -> tensor<5x8x2xf32>
  // CHECK: stablehlo.pad %[[ROWS]], %{{.*}}, low = [0, 0, 0], high = [0, 2, 0]
  // CHECK: stablehlo.slice %arg0 [0:5, 1:2, 0:8, 0:2]
  // CHECK: stablehlo.pad %{{.*}}, %{{.*}}, low = [0, 1, 0], high = [0, 1, 0]
  // CHECK: stablehlo.slice %arg0 [0:5, 2:3, 0:8, 0:2]
  // CHECK: stablehlo.pad %{{.*}}, %{{.*}}, low = [0, 2, 0], high = [0, 0, 0]
  // CHECK: %[[SUM:.*]] = stablehlo.add %{{.*}} : tensor<5x10x2xf32>
  // CHECK: %[[FLAT:.*]] = stablehlo.reshape %[[SUM]] : (tensor<5x10x2xf32>) -> tensor<5x20xf32>
  // CHECK: return %[[FLAT]]
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.pad %a, %zero, low = [0, 0, 0, 0], high = [0, 0, 8, 0], interior = [0, 0, 0, 0] : (tensor<5x3x8x2xf32>, tensor<f32>) -> tensor<5x3x16x2xf32>
  %1 = stablehlo.reshape %0 : (tensor<5x3x16x2xf32>) -> tensor<5x96xf32>
  %2 = stablehlo.slice %1 [0:5, 0:90] : (tensor<5x96xf32>) -> tensor<5x90xf32>
  %3 = stablehlo.reshape %2 : (tensor<5x90xf32>) -> tensor<5x3x30xf32>
  %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<5x3x30xf32>, tensor<f32>) -> tensor<5x30xf32>
  %5 = stablehlo.slice %4 [0:5, 0:20] : (tensor<5x30xf32>) -> tensor<5x20xf32>
  return %5 : tensor<5x20xf32>
}

// -----

// Not where the padding is too short, so that a part ends in the one before; nor of a maximum.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK-NOT: stablehlo.add %{{.*}} : tensor<5x
func.func @main(%a: tensor<5x3x8x2xf32>) -> (tensor<5x16xf32>, tensor<5x20xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.pad %a, %zero, low = [0, 0, 0, 0], high = [0, 0, 1, 0], interior = [0, 0, 0, 0] : (tensor<5x3x8x2xf32>, tensor<f32>) -> tensor<5x3x9x2xf32>
  %1 = stablehlo.reshape %0 : (tensor<5x3x9x2xf32>) -> tensor<5x54xf32>
  %2 = stablehlo.slice %1 [0:5, 0:48] : (tensor<5x54xf32>) -> tensor<5x48xf32>
  %3 = stablehlo.reshape %2 : (tensor<5x48xf32>) -> tensor<5x3x16xf32>
  %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<5x3x16xf32>, tensor<f32>) -> tensor<5x16xf32>
  %5 = stablehlo.slice %4 [0:5, 0:16] : (tensor<5x16xf32>) -> tensor<5x16xf32>
  %6 = stablehlo.pad %a, %zero, low = [0, 0, 0, 0], high = [0, 0, 8, 0], interior = [0, 0, 0, 0] : (tensor<5x3x8x2xf32>, tensor<f32>) -> tensor<5x3x16x2xf32>
  %7 = stablehlo.reshape %6 : (tensor<5x3x16x2xf32>) -> tensor<5x96xf32>
  %8 = stablehlo.slice %7 [0:5, 0:90] : (tensor<5x96xf32>) -> tensor<5x90xf32>
  %9 = stablehlo.reshape %8 : (tensor<5x90xf32>) -> tensor<5x3x30xf32>
  %10 = stablehlo.reduce(%9 init: %zero) applies stablehlo.maximum across dimensions = [1] : (tensor<5x3x30xf32>, tensor<f32>) -> tensor<5x30xf32>
  %11 = stablehlo.slice %10 [0:5, 0:20] : (tensor<5x30xf32>) -> tensor<5x20xf32>
  return %5, %11 : tensor<5x16xf32>, tensor<5x20xf32>
}
