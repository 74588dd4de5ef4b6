// RUN: dtensor-opt %s --dtensor-find-forms | filecheck %s

// What a loop reduces of what never changes in it comes first; what is as large stays.

// CHECK-LABEL: func.func @main
// CHECK: %[[TWICE:.*]] = stablehlo.add %arg0, %arg0
// CHECK: %[[SUM:.*]] = stablehlo.reduce(%[[TWICE]] init: %{{.*}}) applies stablehlo.add across dimensions = [0]
// CHECK: stablehlo.while
// CHECK: do {
// CHECK-NOT: stablehlo.reduce
// CHECK: stablehlo.transpose
// CHECK: %[[NEXT:.*]] = stablehlo.multiply %{{.*}}, %[[SUM]]
func.func @main(%a: tensor<8x4xf32>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<8x4xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.constant dense<0> : tensor<i32>
  %1 = stablehlo.constant dense<1> : tensor<i32>
  %end = stablehlo.constant dense<3> : tensor<i32>
  %r:4 = stablehlo.while(%i = %0, %c = %x, %k = %a, %m = %a) : tensor<i32>, tensor<4xf32>, tensor<8x4xf32>, tensor<8x4xf32>
    cond {
      %p = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %2 = stablehlo.add %k, %k : tensor<8x4xf32>
      %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
      %4 = stablehlo.transpose %k, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
      %5 = stablehlo.reshape %4 : (tensor<4x8xf32>) -> tensor<8x4xf32>
      %6 = stablehlo.add %m, %5 : tensor<8x4xf32>
      %7 = stablehlo.multiply %c, %3 : tensor<4xf32>
      %n = stablehlo.add %i, %1 : tensor<i32>
      stablehlo.return %n, %7, %k, %6 : tensor<i32>, tensor<4xf32>, tensor<8x4xf32>, tensor<8x4xf32>
    }
  return %r#1, %r#3 : tensor<4xf32>, tensor<8x4xf32>
}
