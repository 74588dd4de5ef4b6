// RUN: dtensor-opt %s --dtensor-print-rules 2>&1 | filecheck %s

// The rows that are scanned go together, and so do those of a batch; matrices are combined whole.

func.func @main(%a: tensor<8x5x3x3xf32>, %b: tensor<8x5x3xf32>) -> tensor<8x5x3xf32> {
  // CHECK: remark: dtensor.scan: [a scan, b, *, *], [a scan, b, *] -> [a scan, b, *, *], [a scan, b, *]; dimension 2 of operand 0 is combined as a whole
  %0:2 = "dtensor.scan"(%a, %b) ({
  ^bb0(%p: tensor<2x5x3x3xf32>, %u: tensor<2x5x3xf32>, %q: tensor<2x5x3x3xf32>, %v: tensor<2x5x3xf32>):
    %1 = stablehlo.dot_general %q, %p, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x5x3x3xf32>, tensor<2x5x3x3xf32>) -> tensor<2x5x3x3xf32>
    %2 = stablehlo.dot_general %q, %u, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : (tensor<2x5x3x3xf32>, tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
    %3 = stablehlo.add %2, %v : tensor<2x5x3xf32>
    stablehlo.return %1, %3 : tensor<2x5x3x3xf32>, tensor<2x5x3xf32>
  }) {dim = 0 : i64, reverse = 0 : i64} : (tensor<8x5x3x3xf32>, tensor<8x5x3xf32>) -> (tensor<8x5x3x3xf32>, tensor<8x5x3xf32>)
  return %0#1 : tensor<8x5x3xf32>
}
