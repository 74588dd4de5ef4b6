// RUN: dtensor-opt %s --dtensor-find-orders | filecheck %s

// An operand of a sort that counts the places decides between equal elements.

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<3x300xf32>) -> (tensor<3x300xi32>, tensor<3x300xi32>, tensor<3x300xi8>) {
  %place = stablehlo.iota dim = 1 : tensor<3x300xi32>
  %row = stablehlo.iota dim = 0 : tensor<3x300xi32>
  %wrapped = stablehlo.iota dim = 1 : tensor<3x300xi8>
  // CHECK: "stablehlo.sort"(%arg0, %{{.*}}) <{dimension = 1 : i64, is_stable = true}>
  // CHECK: {dtensor.places = 1 : i64} : (tensor<3x300xf32>, tensor<3x300xi32>)
  %0:2 = "stablehlo.sort"(%a, %place) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>, %r: tensor<i32>, %s: tensor<i32>):
    %1 = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<3x300xf32>, tensor<3x300xi32>) -> (tensor<3x300xf32>, tensor<3x300xi32>)
  // Rows are all alike, and eight bits do not count to 300.
  // CHECK-NOT: dtensor.places
  %2:2 = "stablehlo.sort"(%a, %row) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>, %r: tensor<i32>, %s: tensor<i32>):
    %1 = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<3x300xf32>, tensor<3x300xi32>) -> (tensor<3x300xf32>, tensor<3x300xi32>)
  %3:2 = "stablehlo.sort"(%a, %wrapped) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>, %r: tensor<i8>, %s: tensor<i8>):
    %1 = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<3x300xf32>, tensor<3x300xi8>) -> (tensor<3x300xf32>, tensor<3x300xi8>)
  return %0#1, %2#1, %3#1 : tensor<3x300xi32>, tensor<3x300xi32>, tensor<3x300xi8>
}
