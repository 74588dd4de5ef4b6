// RUN: dtensor-opt %s --dtensor-print-rules 2>&1 | filecheck %s

// A contracted dimension is split into parts of the sum, and a sum passes if the other side is
// complete.

func.func @batched(%a: tensor<2x3x4xf32>, %b: tensor<2x5x4xf32>) -> tensor<2x3x5xf32> {
  // CHECK: remark: stablehlo.dot_general: [a, c, b], [a, d, b] -> [a, c, d] reduce {b: sum}; passes sum, _ -> sum | _, sum -> sum
  %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [2]
      : (tensor<2x3x4xf32>, tensor<2x5x4xf32>) -> tensor<2x3x5xf32>
  return %0 : tensor<2x3x5xf32>
}

func.func @widening(%a: tensor<2x3xi8>, %b: tensor<3x5xi8>) -> tensor<2x5xi32> {
  // Bytes wrap where the result does not.
  // CHECK: remark: stablehlo.dot_general: [b, a], [a, c] -> [b, c] reduce {a: sum}{{$}}
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
      : (tensor<2x3xi8>, tensor<3x5xi8>) -> tensor<2x5xi32>
  return %0 : tensor<2x5xi32>
}
