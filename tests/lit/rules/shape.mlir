// RUN: dtensor-opt %s --dtensor-print-rules 2>&1 | filecheck %s

// Ops that rename, repeat or regroup dimensions.

func.func @renamed(%a: tensor<2x3x5xi1>) -> tensor<5x2x3xi1> {
  // CHECK: remark: stablehlo.transpose: [b, c, a] -> [a, b, c]; passes and -> and | or -> or{{$}}
  %0 = stablehlo.transpose %a, dims = [2, 0, 1] : (tensor<2x3x5xi1>) -> tensor<5x2x3xi1>
  return %0 : tensor<5x2x3xi1>
}

func.func @repeated(%a: tensor<1x3xf32>) -> tensor<4x3x2xf32> {
  // The dimension of one element is not split; what it becomes is.
  // CHECK: remark: stablehlo.broadcast_in_dim: [*, b] -> [a, b, c]; passes sum -> sum |
  %0 = stablehlo.broadcast_in_dim %a, dims = [0, 1] : (tensor<1x3xf32>) -> tensor<4x3x2xf32>
  return %0 : tensor<4x3x2xf32>
}

func.func @regrouped(%a: tensor<6x4x5xf32>) -> tensor<24x1x5xf32> {
  // CHECK: remark: stablehlo.reshape: [a:(1)6, a:(6)4, b] -> [a, *, b];
  %0 = stablehlo.reshape %a : (tensor<6x4x5xf32>) -> tensor<24x1x5xf32>
  // CHECK: remark: stablehlo.reshape: [a, *, b] -> [a:(1)4, a:(4)6, b];
  %1 = stablehlo.reshape %0 : (tensor<24x1x5xf32>) -> tensor<4x6x5xf32>
  return %0 : tensor<24x1x5xf32>
}

func.func @reversed(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK: remark: stablehlo.reverse: [a, b window] -> [a, b window]; passes sum -> sum |
  %0 = stablehlo.reverse %a, dims = [1] : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
