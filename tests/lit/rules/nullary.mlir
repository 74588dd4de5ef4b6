// RUN: dtensor-opt %s --dtensor-print-rules 2>&1 | filecheck %s

// Values from nowhere can be laid out anyhow, and the identity of a reduction is a part of it.

func.func @constants() -> tensor<2x3xf32> {
  // CHECK: remark: stablehlo.constant: -> [a, b]; passes -> sum; free
  %0 = stablehlo.constant dense<0.0> : tensor<2x3xf32>
  // CHECK: remark: stablehlo.constant: -> []; passes -> max; free
  %1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
  // CHECK: remark: stablehlo.constant: -> [a]; passes -> and; free
  %2 = stablehlo.constant dense<true> : tensor<4xi1>
  // CHECK: remark: stablehlo.constant: -> [a]; passes -> sum | -> max | -> or; free
  %3 = stablehlo.constant dense<0> : tensor<4xui8>
  // CHECK: remark: stablehlo.constant: -> [a]; passes -> sum; free
  %4 = stablehlo.constant dense<(0.0, 0.0)> : tensor<4xcomplex<f32>>
  // CHECK: remark: stablehlo.constant: -> [a]; free
  %5 = stablehlo.constant dense<[0.0, 1.0]> : tensor<2xf32>
  // CHECK: remark: stablehlo.iota: -> [a, b]; free
  %6 = stablehlo.iota dim = 1 : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
