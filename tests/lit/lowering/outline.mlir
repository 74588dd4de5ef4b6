// RUN: dtensor-opt %s --dtensor-outline='cpu=true' | filecheck %s
// RUN: dtensor-opt %s -p dtensor-outline | filecheck %s --check-prefix=ELSEWHERE

// Sums down a residual stream, each read by three kernels and the next sum: XLA's CPU code would add
// up all terms in each kernel. So each sum is a call, but for the last two, which few read; equal
// ones call one function.

// CHECK-LABEL: func.func @stream
// ELSEWHERE-LABEL: func.func @stream
// ELSEWHERE-NOT: call
// ELSEWHERE-LABEL: func.func @few_terms
func.func @stream(%x: tensor<8x64xf32>, %a: tensor<8x64xf32>, %b: tensor<8x64xf32>, %c: tensor<8x64xf32>,
                  %d: tensor<8x64xf32>, %e: tensor<8x64xf32>, %f: tensor<8x64xf32>, %w: tensor<64x3xf32>)
    -> (tensor<8x3xf32>, tensor<8x3xf32>, tensor<8x3xf32>, tensor<8x3xf32>, tensor<8x3xf32>, tensor<8x3xf32>) {
  // CHECK-NEXT: %[[ONE:.*]] = call @dtensor_add(%arg0, %arg1) {mhlo.frontend_attributes = {inlineable = "false"}}
  %1 = stablehlo.add %x, %a : tensor<8x64xf32>
  // CHECK: %[[TWO:.*]] = call @dtensor_add(%[[ONE]], %arg2)
  %2 = stablehlo.add %1, %b : tensor<8x64xf32>
  // CHECK: %[[THREE:.*]] = call @dtensor_add(%[[TWO]], %arg3)
  %3 = stablehlo.add %2, %c : tensor<8x64xf32>
  // CHECK: %[[FOUR:.*]] = call @dtensor_add(%[[THREE]], %arg4)
  %4 = stablehlo.add %3, %d : tensor<8x64xf32>
  // CHECK: %[[FIVE:.*]] = stablehlo.add %[[FOUR]], %arg5
  %5 = stablehlo.add %4, %e : tensor<8x64xf32>
  // CHECK: stablehlo.add %[[FIVE]], %arg6
  %6 = stablehlo.add %5, %f : tensor<8x64xf32>
  %a1 = stablehlo.dot %1, %w : (tensor<8x64xf32>, tensor<64x3xf32>) -> tensor<8x3xf32>
  %a2 = stablehlo.dot %1, %w, precision = [HIGH, HIGH] : (tensor<8x64xf32>, tensor<64x3xf32>) -> tensor<8x3xf32>
  %a3 = stablehlo.dot %1, %w, precision = [HIGHEST, HIGHEST] : (tensor<8x64xf32>, tensor<64x3xf32>) -> tensor<8x3xf32>
  %b1 = stablehlo.dot %2, %w : (tensor<8x64xf32>, tensor<64x3xf32>) -> tensor<8x3xf32>
  %b2 = stablehlo.dot %2, %w, precision = [HIGH, HIGH] : (tensor<8x64xf32>, tensor<64x3xf32>) -> tensor<8x3xf32>
  %b3 = stablehlo.dot %2, %w, precision = [HIGHEST, HIGHEST] : (tensor<8x64xf32>, tensor<64x3xf32>) -> tensor<8x3xf32>
  %c1 = stablehlo.dot %3, %w : (tensor<8x64xf32>, tensor<64x3xf32>) -> tensor<8x3xf32>
  %c2 = stablehlo.dot %3, %w, precision = [HIGH, HIGH] : (tensor<8x64xf32>, tensor<64x3xf32>) -> tensor<8x3xf32>
  %c3 = stablehlo.dot %3, %w, precision = [HIGHEST, HIGHEST] : (tensor<8x64xf32>, tensor<64x3xf32>) -> tensor<8x3xf32>
  %d1 = stablehlo.dot %4, %w : (tensor<8x64xf32>, tensor<64x3xf32>) -> tensor<8x3xf32>
  %d2 = stablehlo.dot %4, %w, precision = [HIGH, HIGH] : (tensor<8x64xf32>, tensor<64x3xf32>) -> tensor<8x3xf32>
  %d3 = stablehlo.dot %4, %w, precision = [HIGHEST, HIGHEST] : (tensor<8x64xf32>, tensor<64x3xf32>) -> tensor<8x3xf32>
  %e1 = stablehlo.dot %5, %w : (tensor<8x64xf32>, tensor<64x3xf32>) -> tensor<8x3xf32>
  %e2 = stablehlo.dot %5, %w, precision = [HIGH, HIGH] : (tensor<8x64xf32>, tensor<64x3xf32>) -> tensor<8x3xf32>
  %e3 = stablehlo.dot %5, %w, precision = [HIGHEST, HIGHEST] : (tensor<8x64xf32>, tensor<64x3xf32>) -> tensor<8x3xf32>
  %f1 = stablehlo.dot %6, %w : (tensor<8x64xf32>, tensor<64x3xf32>) -> tensor<8x3xf32>
  %f2 = stablehlo.dot %6, %w, precision = [HIGH, HIGH] : (tensor<8x64xf32>, tensor<64x3xf32>) -> tensor<8x3xf32>
  %f3 = stablehlo.dot %6, %w, precision = [HIGHEST, HIGHEST] : (tensor<8x64xf32>, tensor<64x3xf32>) -> tensor<8x3xf32>
  return %a3, %b3, %c3, %d3, %e3, %f3 : tensor<8x3xf32>, tensor<8x3xf32>, tensor<8x3xf32>, tensor<8x3xf32>, tensor<8x3xf32>, tensor<8x3xf32>
}

// CHECK-LABEL: func.func @few_terms
// CHECK-NOT: call
func.func @few_terms(%x: tensor<8x64xf32>, %a: tensor<8x64xf32>, %w: tensor<64x3xf32>) -> tensor<8x3xf32> {
  %1 = stablehlo.add %x, %a : tensor<8x64xf32>
  %2 = stablehlo.dot %1, %w : (tensor<8x64xf32>, tensor<64x3xf32>) -> tensor<8x3xf32>
  return %2 : tensor<8x3xf32>
}

// CHECK: func.func private @dtensor_add(%arg0: tensor<8x64xf32>, %arg1: tensor<8x64xf32>) -> tensor<8x64xf32>
// CHECK-NEXT: stablehlo.add %arg0, %arg1
// CHECK-NOT: func.func private
