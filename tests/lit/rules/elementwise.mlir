// RUN: dtensor-opt %s --dtensor-print-rules 2>&1 | filecheck %s

// Every dimension is a factor of its own, and a scalar operand has none. A table says which parts
// pass.

func.func @arithmetic(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK: remark: stablehlo.add: [a, b], [a, b] -> [a, b]; passes sum, sum -> sum
  %0 = stablehlo.add %a, %b : tensor<2x3xf32>
  // CHECK: remark: stablehlo.multiply: [a, b], [a, b] -> [a, b]; passes sum, _ -> sum | _, sum -> sum | prod, prod -> prod
  %1 = stablehlo.multiply %0, %b : tensor<2x3xf32>
  // CHECK: remark: stablehlo.divide: [a, b], [a, b] -> [a, b]; passes sum, _ -> sum
  %2 = stablehlo.divide %1, %b : tensor<2x3xf32>
  // CHECK: remark: stablehlo.maximum: {{.*}}; passes max, max -> max | max, _ -> max | _, max -> max
  %3 = stablehlo.maximum %2, %b : tensor<2x3xf32>
  // CHECK: remark: stablehlo.negate: [a, b] -> [a, b]; passes sum -> sum | max -> min | min -> max
  %4 = stablehlo.negate %3 : tensor<2x3xf32>
  // CHECK: remark: stablehlo.exponential: [a, b] -> [a, b]{{$}}
  %5 = stablehlo.exponential %4 : tensor<2x3xf32>
  return %5 : tensor<2x3xf32>
}

func.func @integers(%a: tensor<2xi32>, %b: tensor<2xi32>) -> tensor<2xi32> {
  // Division truncates, so that the quotients of the parts do not add up.
  // CHECK: remark: stablehlo.divide: [a], [a] -> [a]{{$}}
  %0 = stablehlo.divide %a, %b : tensor<2xi32>
  // The lowest integer, which a shard without a part of a maximum holds, is its own negative.
  // CHECK: remark: stablehlo.negate: [a] -> [a]; passes sum -> sum{{$}}
  %1 = stablehlo.negate %0 : tensor<2xi32>
  // CHECK: remark: stablehlo.not: [a] -> [a]; passes and -> or | or -> and{{$}}
  %2 = stablehlo.not %1 : tensor<2xi32>
  return %2 : tensor<2xi32>
}

func.func @scalars(%p: tensor<i1>, %low: tensor<f32>, %x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK: remark: stablehlo.clamp: [], [a, b], [] -> [a, b]{{$}}
  %0 = stablehlo.clamp %low, %x, %low : (tensor<f32>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  // CHECK: remark: stablehlo.select: [], [a, b], [a, b] -> [a, b]; passes _, sum, sum -> sum | _, max, max -> max
  %1 = stablehlo.select %p, %0, %x : tensor<i1>, tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

func.func @conversions(%x: tensor<2xbf16>, %i: tensor<2xi8>) -> (tensor<2xbf16>, tensor<2xi32>) {
  // CHECK: remark: stablehlo.convert: [a] -> [a]; passes sum -> sum | max -> max | min -> min | prod -> prod
  %0 = stablehlo.convert %x : (tensor<2xbf16>) -> tensor<2xf32>
  // Each part would be rounded before the sum.
  // CHECK: remark: stablehlo.convert: [a] -> [a]{{$}}
  %1 = stablehlo.convert %0 : (tensor<2xf32>) -> tensor<2xbf16>
  // A sum of bytes wraps.
  // CHECK: remark: stablehlo.convert: [a] -> [a]; passes max -> max | min -> min | and -> and | or -> or
  %2 = stablehlo.convert %i : (tensor<2xi8>) -> tensor<2xi32>
  // CHECK: remark: stablehlo.bitcast_convert: [a] -> [a, *]; dimension 1 of result 0 holds the bytes of one element of the other type
  %3 = stablehlo.bitcast_convert %2 : (tensor<2xi32>) -> tensor<2x4xi8>
  return %1, %2 : tensor<2xbf16>, tensor<2xi32>
}
