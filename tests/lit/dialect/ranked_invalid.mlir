// RUN: dtensor-opt %s --verify-diagnostics

func.func @main(%a: tensor<4x3xi32>, %k: tensor<2xi32>, %f: tensor<2xf32>, %each: tensor<2x3xi32>) {
  // expected-error @below {{dim = 2 is no dimension of a tensor of rank 2; give 0 to 1}}
  %0 = "dtensor.ranked"(%a, %k) ({
  ^bb0(%p: tensor<i32>, %q: tensor<i32>):
    %8 = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %8 : tensor<i1>
  }) {dim = 2 : i64} : (tensor<4x3xi32>, tensor<2xi32>) -> tensor<4x2xi32>
  // expected-error @below {{places are tensor<2xf32>; give integers of one dimension, or of 2, the places first and then the other dimensions of tensor<4x3xi32>}}
  %1 = "dtensor.ranked"(%a, %f) ({
  ^bb0(%p: tensor<i32>, %q: tensor<i32>):
    %8 = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %8 : tensor<i1>
  }) {dim = 1 : i64} : (tensor<4x3xi32>, tensor<2xf32>) -> tensor<4x2xi32>
  // expected-error @below {{places are tensor<2x3xi32>; give integers of one dimension, or of 2, the places first and then the other dimensions of tensor<4x3xi32>}}
  %4 = "dtensor.ranked"(%a, %each) ({
  ^bb0(%p: tensor<i32>, %q: tensor<i32>):
    %8 = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %8 : tensor<i1>
  }) {dim = 1 : i64} : (tensor<4x3xi32>, tensor<2x3xi32>) -> tensor<4x2xi32>
  // expected-error @below {{result is tensor<4x3xi32>, but an element for each place gives tensor<4x2xi32>; change the result type}}
  %2 = "dtensor.ranked"(%a, %k) ({
  ^bb0(%p: tensor<i32>, %q: tensor<i32>):
    %8 = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %8 : tensor<i1>
  }) {dim = 1 : i64} : (tensor<4x3xi32>, tensor<2xi32>) -> tensor<4x3xi32>
  // expected-error @below {{the region takes ['tensor<f32>', 'tensor<f32>']; give it two scalars of operand 0}}
  %3 = "dtensor.ranked"(%a, %k) ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %8 = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %8 : tensor<i1>
  }) {dim = 1 : i64} : (tensor<4x3xi32>, tensor<2xi32>) -> tensor<4x2xi32>
  // expected-error @below {{the region returns nothing; end it by a stablehlo.return of i1 of rank 0}}
  %9 = "dtensor.ranked"(%a, %k) ({
  ^bb0(%p: tensor<i32>, %q: tensor<i32>):
    %8 = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
  }) {dim = 1 : i64} : (tensor<4x3xi32>, tensor<2xi32>) -> tensor<4x2xi32>
  // expected-error @below {{result 1 is tensor<4x2xi8>, which says where elements stand; make it tensor<4x2xi32>}}
  %5:2 = "dtensor.ranked"(%a, %k) ({
  ^bb0(%p: tensor<i32>, %q: tensor<i32>):
    %8 = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %8 : tensor<i1>
  }) {dim = 1 : i64} : (tensor<4x3xi32>, tensor<2xi32>) -> (tensor<4x2xi32>, tensor<4x2xi8>)
  // expected-error @below {{gives 3 results; leave the elements, and where they stand}}
  %6:3 = "dtensor.ranked"(%a, %k) ({
  ^bb0(%p: tensor<i32>, %q: tensor<i32>):
    %8 = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %8 : tensor<i1>
  }) {dim = 1 : i64} : (tensor<4x3xi32>, tensor<2xi32>) -> (tensor<4x2xi32>, tensor<4x2xi32>, tensor<4x2xi32>)
  return
}
