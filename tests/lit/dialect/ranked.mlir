// RUN: dtensor-opt %s | dtensor-opt | filecheck %s

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<4x3xf32>, %k: tensor<2xi32>) -> tensor<4x2xf32> {
  // CHECK: "dtensor.ranked"(%{{.*}}, %{{.*}}) ({
  // CHECK: }) {dim = 1 : i64} : (tensor<4x3xf32>, tensor<2xi32>) -> tensor<4x2xf32>
  %0 = "dtensor.ranked"(%a, %k) ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %1 = stablehlo.compare LT, %p, %q, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) {dim = 1 : i64} : (tensor<4x3xf32>, tensor<2xi32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}

// Each row has places of its own.
// CHECK-LABEL: func.func @each
func.func @each(%a: tensor<4x5x3xf32>, %k: tensor<2x4x3xi32>) -> tensor<4x2x3xf32> {
  // CHECK: }) {dim = 1 : i64} : (tensor<4x5x3xf32>, tensor<2x4x3xi32>) -> tensor<4x2x3xf32>
  %0 = "dtensor.ranked"(%a, %k) ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %1 = stablehlo.compare LT, %p, %q, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) {dim = 1 : i64} : (tensor<4x5x3xf32>, tensor<2x4x3xi32>) -> tensor<4x2x3xf32>
  return %0 : tensor<4x2x3xf32>
}

// Where these elements stand is a second result.
// CHECK-LABEL: func.func @where
func.func @where(%a: tensor<4x3xi8>, %k: tensor<2xi32>) -> (tensor<4x2xi8>, tensor<4x2xi32>) {
  // CHECK: }) {dim = 1 : i64} : (tensor<4x3xi8>, tensor<2xi32>) -> (tensor<4x2xi8>, tensor<4x2xi32>)
  %0:2 = "dtensor.ranked"(%a, %k) ({
  ^bb0(%p: tensor<i8>, %q: tensor<i8>):
    %1 = stablehlo.compare LT, %p, %q : (tensor<i8>, tensor<i8>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) {dim = 1 : i64} : (tensor<4x3xi8>, tensor<2xi32>) -> (tensor<4x2xi8>, tensor<4x2xi32>)
  return %0#0, %0#1 : tensor<4x2xi8>, tensor<4x2xi32>
}
