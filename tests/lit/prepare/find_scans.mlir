// RUN: dtensor-opt %s --dtensor-find-forms --cse | filecheck %s

// A scan of four elements as `jax.lax.associative_scan` writes it, by what does not commute.

// CHECK-LABEL: func.func @scan_of_pairs
func.func @scan_of_pairs(%a: tensor<4x3xf32>, %b: tensor<4x3xf32>) -> tensor<4x3xf32> {
  // CHECK: %[[SCAN:.*]]:2 = "dtensor.scan"(%arg1, %arg0) ({
  // CHECK-NEXT: ^bb0(%[[B:.*]]: tensor<f32>, %[[A:.*]]: tensor<f32>, %[[NEXT_B:.*]]: tensor<f32>, %[[NEXT_A:.*]]: tensor<f32>):
  // CHECK: %[[PART:.*]] = stablehlo.multiply %[[B]], %[[NEXT_A]]
  // CHECK: %[[SUM:.*]] = stablehlo.add %[[PART]], %[[NEXT_B]]
  // CHECK: %[[BOTH:.*]] = stablehlo.multiply %[[A]], %[[NEXT_A]]
  // CHECK: stablehlo.return %[[SUM]], %[[BOTH]]
  // CHECK: }) {dim = 0 : i64, reverse = 0 : i64}
  // CHECK-NEXT: return %[[SCAN]]#0
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.slice %a [0:3:2, 0:3] : (tensor<4x3xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.slice %b [0:3:2, 0:3] : (tensor<4x3xf32>) -> tensor<2x3xf32>
  %2 = stablehlo.slice %a [1:4:2, 0:3] : (tensor<4x3xf32>) -> tensor<2x3xf32>
  %3 = stablehlo.slice %b [1:4:2, 0:3] : (tensor<4x3xf32>) -> tensor<2x3xf32>
  %4 = stablehlo.multiply %0, %2 : tensor<2x3xf32>
  %5 = stablehlo.multiply %1, %2 : tensor<2x3xf32>
  %6 = stablehlo.add %5, %3 : tensor<2x3xf32>
  %7 = stablehlo.slice %6 [0:1:2, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %8 = stablehlo.slice %4 [1:2:2, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %9 = stablehlo.slice %6 [1:2:2, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %10 = stablehlo.multiply %7, %8 : tensor<1x3xf32>
  %11 = stablehlo.add %10, %9 : tensor<1x3xf32>
  %12 = stablehlo.slice %11 [0:0, 0:3] : (tensor<1x3xf32>) -> tensor<0x3xf32>
  %13 = stablehlo.slice %4 [2:2:2, 0:3] : (tensor<2x3xf32>) -> tensor<0x3xf32>
  %14 = stablehlo.slice %6 [2:2:2, 0:3] : (tensor<2x3xf32>) -> tensor<0x3xf32>
  %15 = stablehlo.multiply %12, %13 : tensor<0x3xf32>
  %16 = stablehlo.add %15, %14 : tensor<0x3xf32>
  %17 = stablehlo.slice %6 [0:1, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %18 = stablehlo.concatenate %17, %16, dim = 0 : (tensor<1x3xf32>, tensor<0x3xf32>) -> tensor<1x3xf32>
  %19 = stablehlo.pad %18, %zero, low = [0, 0], high = [1, 0], interior = [1, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %20 = stablehlo.pad %11, %zero, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<1x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %21 = stablehlo.add %19, %20 : tensor<2x3xf32>
  %22 = stablehlo.slice %21 [0:1, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %23 = stablehlo.slice %a [2:4:2, 0:3] : (tensor<4x3xf32>) -> tensor<1x3xf32>
  %24 = stablehlo.slice %b [2:4:2, 0:3] : (tensor<4x3xf32>) -> tensor<1x3xf32>
  %25 = stablehlo.multiply %22, %23 : tensor<1x3xf32>
  %26 = stablehlo.add %25, %24 : tensor<1x3xf32>
  %27 = stablehlo.slice %b [0:1, 0:3] : (tensor<4x3xf32>) -> tensor<1x3xf32>
  %28 = stablehlo.concatenate %27, %26, dim = 0 : (tensor<1x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  %29 = stablehlo.pad %28, %zero, low = [0, 0], high = [1, 0], interior = [1, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %30 = stablehlo.pad %21, %zero, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  %31 = stablehlo.add %29, %30 : tensor<4x3xf32>
  return %31 : tensor<4x3xf32>
}
