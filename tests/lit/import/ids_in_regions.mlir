// RUN: dtensor-opt %s --mesh x=2 --dtensor-import --mlir-print-debuginfo | filecheck %s

// Operations inside loops have their own ids; combiners of reductions belong to their reduction.

func.func @main(%a: tensor<2x3xf32>, %n: tensor<i32>) -> tensor<2xf32> {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  // CHECK: stablehlo.while
  %0:2 = stablehlo.while(%i = %n, %c = %a) : tensor<i32>, tensor<2x3xf32>
    cond {
      // CHECK: stablehlo.compare {{.*}} loc(#[[COMPARE:loc[0-9]+]])
      %p = stablehlo.compare LT, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      // CHECK: stablehlo.tanh {{.*}} loc(#[[TANH:loc[0-9]+]])
      %1 = stablehlo.tanh %c : tensor<2x3xf32>
      %2 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %2, %1 : tensor<i32>, tensor<2x3xf32>
    // CHECK: } loc(#[[LOOP:loc[0-9]+]])
    }
  // CHECK: stablehlo.reduce{{.*}} loc(#[[REDUCE:loc[0-9]+]])
  %3 = stablehlo.reduce(%0#1 init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  return %3 : tensor<2xf32>
}

// CHECK-DAG: #[[LOOP]] = loc(fused<2 : i64>
// CHECK-DAG: #[[COMPARE]] = loc(fused<3 : i64>
// CHECK-DAG: #[[TANH]] = loc(fused<5 : i64>
// CHECK-DAG: #[[REDUCE]] = loc(fused<8 : i64>
