// RUN: dtensor-opt %s --dtensor-print-rules 2>&1 | filecheck %s

// The body of a reduce says by what its shards are combined.

func.func @one(%a: tensor<2x3xf32>, %i: tensor<f32>, %p: tensor<2x3xi1>, %t: tensor<i1>) -> tensor<2xf32> {
  // CHECK: remark: stablehlo.reduce: [a, b], [] -> [a] reduce {b: sum}; passes sum, sum -> sum{{$}}
  %0 = stablehlo.reduce(%a init: %i) applies stablehlo.add across dimensions = [1]
      : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  // CHECK: remark: stablehlo.reduce: [a, b], [] -> [b] reduce {a: max}; passes max, max -> max{{$}}
  %1 = stablehlo.reduce(%a init: %i) applies stablehlo.maximum across dimensions = [0]
      : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>
  // The sum of i1 is "or".
  // CHECK: remark: stablehlo.reduce: [a, b], [] -> [] reduce {a: or, b: or}; passes or, or -> or{{$}}
  %2 = stablehlo.reduce(%p init: %t) applies stablehlo.add across dimensions = [0, 1]
      : (tensor<2x3xi1>, tensor<i1>) -> tensor<i1>
  return %0 : tensor<2xf32>
}

// An argmax chooses one of its pairs: the shards' choices are gathered, and one of them is chosen.
func.func @argmax(%a: tensor<2x3xf32>, %n: tensor<2x3xi32>, %i: tensor<f32>, %j: tensor<i32>) -> tensor<2xi32> {
  // CHECK: remark: stablehlo.reduce: [a, b order], [a, b order], [], [] -> [a], [a]{{$}}
  %0:2 = stablehlo.reduce(%a init: %i), (%n init: %j) across dimensions = [1]
      : (tensor<2x3xf32>, tensor<2x3xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
    reducer(%x: tensor<f32>, %y: tensor<f32>) (%u: tensor<i32>, %v: tensor<i32>) {
    %1 = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %2 = stablehlo.select %1, %x, %y : tensor<i1>, tensor<f32>
    %3 = stablehlo.select %1, %u, %v : tensor<i1>, tensor<i32>
    stablehlo.return %2, %3 : tensor<f32>, tensor<i32>
  }
  return %0#1 : tensor<2xi32>
}

// Any other body: totals of shards are reduced in order, so that only the first of several reduced
// dimensions may be split; all of them by a body that commutes.
func.func @any_body(%a: tensor<2x3x5xf32>, %i: tensor<f32>) -> (tensor<2xf32>, tensor<2xf32>) {
  // CHECK: remark: stablehlo.reduce: [a, b order, *], [] -> [a]; dimension 2 of operand 0 is reduced inside of another dimension, by a body that may not commute
  %0 = stablehlo.reduce(%a init: %i) across dimensions = [1, 2] : (tensor<2x3x5xf32>, tensor<f32>) -> tensor<2xf32>
    reducer(%x: tensor<f32>, %y: tensor<f32>) {
    stablehlo.return %x : tensor<f32>
  }
  // CHECK: remark: stablehlo.reduce: [a, b order, c order], [] -> [a]{{$}}
  %1 = stablehlo.reduce(%a init: %i) across dimensions = [1, 2] : (tensor<2x3x5xf32>, tensor<f32>) -> tensor<2xf32>
    reducer(%x: tensor<f32>, %y: tensor<f32>) {
    %2 = stablehlo.multiply %x, %y : tensor<f32>
    %3 = stablehlo.add %2, %x : tensor<f32>
    %4 = stablehlo.add %3, %y : tensor<f32>
    stablehlo.return %4 : tensor<f32>
  }
  return %0, %1 : tensor<2xf32>, tensor<2xf32>
}
