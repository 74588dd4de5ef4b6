// RUN: dtensor-opt %s --dtensor-print-rules 2>&1 | filecheck %s

// Where whole blocks are kept together, each block can be split: `3 b` is three blocks of b.

func.func @qkv(%a: tensor<2x18xf32>, %zero: tensor<f32>) -> tensor<2x18xf32> {
  // CHECK: remark: stablehlo.slice: [a, 3 b] -> [a, b] or [a, b window] -> [a, b:(1)6 window]; passes sum -> sum |
  %q = stablehlo.slice %a [0:2, 0:6] : (tensor<2x18xf32>) -> tensor<2x6xf32>
  // CHECK: remark: stablehlo.slice: [a, 3 b] -> [a, 2 b] or [a, b window] -> [a, b:(1)12 window];
  %kv = stablehlo.slice %a [0:2, 6:18] : (tensor<2x18xf32>) -> tensor<2x12xf32>
  // CHECK: remark: stablehlo.concatenate: [a, b], [a, 2 b] -> [a, 3 b] or [a, b:(1)6 window], [a, b:(1)12 window] -> [a, b window]; passes sum, sum -> sum |
  %0 = stablehlo.concatenate %q, %kv, dim = 1 : (tensor<2x6xf32>, tensor<2x12xf32>) -> tensor<2x18xf32>
  // The gradient of the first slice.
  // CHECK: remark: stablehlo.pad: [a, b], [] -> [a, 3 b] or [a, b window], [] -> [a, b:(1)18 window]; passes sum, sum -> sum |
  %1 = stablehlo.pad %q, %zero, low = [0, 0], high = [0, 12], interior = [0, 0]
      : (tensor<2x6xf32>, tensor<f32>) -> tensor<2x18xf32>
  return %0 : tensor<2x18xf32>
}

func.func @strided(%a: tensor<24xf32>) -> tensor<12xf32> {
  // CHECK: remark: stablehlo.slice: [a] -> [a:(1)12];
  %0 = stablehlo.slice %a [1:24:2] : (tensor<24xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// A window of one element walks over a dimension that is cut by little.

func.func @by_little(%a: tensor<5x48xf32>, %zero: tensor<f32>) -> tensor<5x44xf32> {
  // CHECK: remark: stablehlo.slice: [a, b:(1)48 window] -> [a, b window]; passes sum -> sum |
  %0 = stablehlo.slice %a [0:5, 1:45] : (tensor<5x48xf32>) -> tensor<5x44xf32>
  // CHECK: remark: stablehlo.pad: [a, b:(1)44 window], [] -> [a, b window]; passes sum, sum -> sum |
  %1 = stablehlo.pad %0, %zero, low = [0, 1], high = [0, 3], interior = [0, 0]
      : (tensor<5x44xf32>, tensor<f32>) -> tensor<5x48xf32>
  return %0 : tensor<5x44xf32>
}

func.func @uneven(%a: tensor<5x7xf32>, %zero: tensor<f32>) -> tensor<5x6xf32> {
  // CHECK: remark: stablehlo.slice: [a, *] -> [a, *]; {{.*}}; dimension 1 of operand 0 has 6 of 7 elements cut out of it, not whole blocks
  %0 = stablehlo.slice %a [0:5, 1:7] : (tensor<5x7xf32>) -> tensor<5x6xf32>
  // CHECK: remark: stablehlo.pad: [a, *], [] -> [a, *]; {{.*}}; dimension 1 of operand 0 is padded from 7 to 9 elements, not by whole blocks
  %1 = stablehlo.pad %a, %zero, low = [0, 1], high = [0, 1], interior = [0, 0]
      : (tensor<5x7xf32>, tensor<f32>) -> tensor<5x9xf32>
  // CHECK: remark: stablehlo.concatenate: [a, *], [a, *] -> [a, *]; {{.*}}; dimension 1 of operand 0 is joined from [7, 9] elements, which have no common blocks
  %2 = stablehlo.concatenate %a, %1, dim = 1 : (tensor<5x7xf32>, tensor<5x9xf32>) -> tensor<5x16xf32>
  return %0 : tensor<5x6xf32>
}

func.func @few(%a: tensor<64x7xf32>) -> tensor<2x7xf32> {
  // CHECK: remark: stablehlo.slice: [a, b] -> [*, b] reduce {a: sum}; passes sum -> sum |
  %0 = stablehlo.slice %a [5:7, 0:7] : (tensor<64x7xf32>) -> tensor<2x7xf32>
  return %0 : tensor<2x7xf32>
}

func.func @splice(%a: tensor<8x7xf32>, %b: tensor<2x7xf32>, %zero: tensor<f32>) -> tensor<8x7xf32> {
  // CHECK: remark: dtensor.splice: [a window, b], [*, b], [] -> [a window, b]; passes sum, sum, sum -> sum |
  %0 = "dtensor.splice"(%a, %b, %zero) {dim = 0 : i64, sources = array<i64: 2, 0, 1>, starts = array<i64: 0, 0, 0>, counts = array<i64: 1, 5, 2>} : (tensor<8x7xf32>, tensor<2x7xf32>, tensor<f32>) -> tensor<8x7xf32>
  return %0 : tensor<8x7xf32>
}
