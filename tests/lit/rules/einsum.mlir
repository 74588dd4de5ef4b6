// RUN: dtensor-opt %s --dtensor-print-rules 2>&1 | filecheck %s

// A contracted dimension is split into parts of the sum, and a sum passes if the other side is
// complete and known to be finite: of a part that is zero, infinity would make NaN.

func.func @batched(%a: tensor<2x3x4xf32>, %b: tensor<2x5x4xf32>) -> tensor<2x3x5xf32> {
  // CHECK: remark: stablehlo.dot_general: [a, c, b], [a, d, b] -> [a, c, d] reduce {b: sum}{{$}}
  %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [2]
      : (tensor<2x3x4xf32>, tensor<2x5x4xf32>) -> tensor<2x3x5xf32>
  return %0 : tensor<2x3x5xf32>
}

func.func @known_numbers(%a: tensor<3x4xf32>, %i: tensor<4x5xi32>) -> tensor<2x5xi32> {
  %w = stablehlo.constant dense<1.5> : tensor<2x3xf32>
  // CHECK: remark: stablehlo.dot_general: [b, a], [a, c] -> [b, c] reduce {a: sum}; passes _, sum -> sum{{$}}
  %0 = stablehlo.dot_general %w, %a, contracting_dims = [1] x [0]
      : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %1 = stablehlo.convert %0 : (tensor<2x4xf32>) -> tensor<2x4xi32>
  // CHECK: remark: stablehlo.dot_general: [b, a], [a, c] -> [b, c] reduce {a: sum}; passes sum, _ -> sum | _, sum -> sum{{$}}
  %2 = stablehlo.dot_general %1, %i, contracting_dims = [1] x [0]
      : (tensor<2x4xi32>, tensor<4x5xi32>) -> tensor<2x5xi32>
  return %2 : tensor<2x5xi32>
}

func.func @widening(%a: tensor<2x3xi8>, %b: tensor<3x5xi8>) -> tensor<2x5xi32> {
  // Bytes wrap where the result does not.
  // CHECK: remark: stablehlo.dot_general: [b, a], [a, c] -> [b, c] reduce {a: sum}{{$}}
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
      : (tensor<2x3xi8>, tensor<3x5xi8>) -> tensor<2x5xi32>
  return %0 : tensor<2x5xi32>
}

// `dot` is a dot_general of the last dimension with the first.

func.func @dot(%a: tensor<2x3xf32>, %b: tensor<3x5xf32>) -> tensor<2x5xf32> {
  // CHECK: remark: stablehlo.dot: [b, a], [a, c] -> [b, c] reduce {a: sum}{{$}}
  %0 = stablehlo.dot %a, %b : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}
