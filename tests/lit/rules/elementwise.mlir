// RUN: dtensor-opt %s --dtensor-print-rules 2>&1 | filecheck %s

// Every dimension is a factor of its own, and a scalar operand has none. A table says which parts
// pass.

func.func @arithmetic(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK: remark: stablehlo.add: [a, b], [a, b] -> [a, b]; passes sum, sum -> sum
  %0 = stablehlo.add %a, %b : tensor<2x3xf32>
  // CHECK: remark: stablehlo.multiply: [a, b], [a, b] -> [a, b]; passes prod, prod -> prod{{$}}
  %1 = stablehlo.multiply %0, %b : tensor<2x3xf32>
  // CHECK: remark: stablehlo.divide: [a, b], [a, b] -> [a, b]{{$}}
  %2 = stablehlo.divide %1, %b : tensor<2x3xf32>
  // CHECK: remark: stablehlo.maximum: {{.*}}; passes max, max -> max | max, _ -> max | _, max -> max
  %3 = stablehlo.maximum %2, %b : tensor<2x3xf32>
  // CHECK: remark: stablehlo.negate: [a, b] -> [a, b]; passes sum -> sum | max -> min | min -> max
  %4 = stablehlo.negate %3 : tensor<2x3xf32>
  // CHECK: remark: stablehlo.exponential: [a, b] -> [a, b]{{$}}
  %5 = stablehlo.exponential %4 : tensor<2x3xf32>
  return %5 : tensor<2x3xf32>
}

// Parts are scaled by what is known to be finite, and divided by what is known not to be zero: of a
// part that is zero, the others would make NaN.
func.func @scales(%a: tensor<2x3xf32>, %mask: tensor<2x3xi1>) -> tensor<2x3xf32> {
  %third = stablehlo.constant dense<0.333333343> : tensor<f32>
  %same = stablehlo.broadcast_in_dim %third, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
  // CHECK: remark: stablehlo.multiply: {{.*}}; passes sum, _ -> sum | prod, prod -> prod{{$}}
  %0 = stablehlo.multiply %a, %same : tensor<2x3xf32>
  // CHECK: remark: stablehlo.divide: {{.*}}; passes sum, _ -> sum{{$}}
  %1 = stablehlo.divide %0, %same : tensor<2x3xf32>
  %kept = stablehlo.convert %mask : (tensor<2x3xi1>) -> tensor<2x3xf32>
  // CHECK: remark: stablehlo.multiply: {{.*}}; passes _, sum -> sum | prod, prod -> prod{{$}}
  %2 = stablehlo.multiply %kept, %1 : tensor<2x3xf32>
  // CHECK: remark: stablehlo.divide: [a, b], [a, b] -> [a, b]{{$}}
  %3 = stablehlo.divide %2, %kept : tensor<2x3xf32>
  %gate = stablehlo.tanh %a : tensor<2x3xf32>
  // CHECK: remark: stablehlo.multiply: {{.*}}; passes sum, _ -> sum | prod, prod -> prod{{$}}
  %4 = stablehlo.multiply %3, %gate : tensor<2x3xf32>
  %ends = stablehlo.constant dense<[[1.0, 2.0, 0x7F800000], [0.0, 1.0, 2.0]]> : tensor<2x3xf32>
  // CHECK: remark: stablehlo.multiply: {{.*}}; passes prod, prod -> prod{{$}}
  %5 = stablehlo.multiply %4, %ends : tensor<2x3xf32>
  // CHECK: remark: stablehlo.divide: [a, b], [a, b] -> [a, b]{{$}}
  %6 = stablehlo.divide %5, %ends : tensor<2x3xf32>
  // A half has no number beyond 65504, and a byte none.
  %narrow = stablehlo.convert %ends : (tensor<2x3xf32>) -> tensor<2x3xf16>
  %half = stablehlo.convert %6 : (tensor<2x3xf32>) -> tensor<2x3xf16>
  // CHECK: remark: stablehlo.multiply: {{.*}}; passes prod, prod -> prod{{$}}
  %7 = stablehlo.multiply %half, %narrow : tensor<2x3xf16>
  return %6 : tensor<2x3xf32>
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
