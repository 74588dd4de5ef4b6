// RUN: dtensor-opt %s --verify-diagnostics

func.func @main(%a: tensor<4x3xi32>, %b: tensor<3x4xi32>) {
  // expected-error @below {{dim = 2 is no dimension of a tensor of rank 2; give 0 to 1}}
  %0 = "dtensor.scan"(%a) ({
  ^bb0(%p: tensor<i32>, %q: tensor<i32>):
    stablehlo.return %q : tensor<i32>
  }) {dim = 2 : i64, reverse = 0 : i64} : (tensor<4x3xi32>) -> tensor<4x3xi32>
  // expected-error @below {{reverse is 2; give 1 to begin with the last, or 0}}
  %1 = "dtensor.scan"(%a) ({
  ^bb0(%p: tensor<i32>, %q: tensor<i32>):
    stablehlo.return %q : tensor<i32>
  }) {dim = 0 : i64, reverse = 2 : i64} : (tensor<4x3xi32>) -> tensor<4x3xi32>
  // expected-error @below {{operands are tensor<4x3xi32>, tensor<3x4xi32>; give operands of one shape}}
  %2:2 = "dtensor.scan"(%a, %b) ({
  ^bb0(%p: tensor<i32>, %i: tensor<i32>, %q: tensor<i32>, %j: tensor<i32>):
    stablehlo.return %q, %j : tensor<i32>, tensor<i32>
  }) {dim = 0 : i64, reverse = 0 : i64} : (tensor<4x3xi32>, tensor<3x4xi32>) -> (tensor<4x3xi32>, tensor<3x4xi32>)
  // expected-error @below {{results differ from operands; give each operand a result of its type}}
  %3 = "dtensor.scan"(%a) ({
  ^bb0(%p: tensor<i32>, %q: tensor<i32>):
    stablehlo.return %q : tensor<i32>
  }) {dim = 0 : i64, reverse = 0 : i64} : (tensor<4x3xi32>) -> tensor<3x4xi32>
  // expected-error @below {{the region takes ['tensor<i32>']; give it a scalar of each operand, twice}}
  %4 = "dtensor.scan"(%a) ({
  ^bb0(%p: tensor<i32>):
    stablehlo.return %p : tensor<i32>
  }) {dim = 0 : i64, reverse = 0 : i64} : (tensor<4x3xi32>) -> tensor<4x3xi32>
  // expected-error @below {{operands are tensor<4x3xi32>, tensor<3x4xi32>; give operands of one shape along dimension 0}}
  %5:2 = "dtensor.scan"(%a, %b) ({
  ^bb0(%p: tensor<1x3xi32>, %i: tensor<1x4xi32>, %q: tensor<1x3xi32>, %j: tensor<1x4xi32>):
    stablehlo.return %q, %j : tensor<1x3xi32>, tensor<1x4xi32>
  }) {dim = 0 : i64, reverse = 0 : i64} : (tensor<4x3xi32>, tensor<3x4xi32>) -> (tensor<4x3xi32>, tensor<3x4xi32>)
  // expected-error @below {{the region takes ['tensor<1x3xi32>', 'tensor<i32>']; give it rows of each operand, twice}}
  %6 = "dtensor.scan"(%a) ({
  ^bb0(%p: tensor<1x3xi32>, %q: tensor<i32>):
    stablehlo.return %p : tensor<1x3xi32>
  }) {dim = 0 : i64, reverse = 0 : i64} : (tensor<4x3xi32>) -> tensor<4x3xi32>
  // expected-error @below {{the region returns nothing; end it by a stablehlo.return of i32 of rank 0}}
  %7 = "dtensor.scan"(%a) ({
  ^bb0(%p: tensor<i32>, %q: tensor<i32>):
    %8 = stablehlo.add %p, %q : tensor<i32>
  }) {dim = 0 : i64, reverse = 0 : i64} : (tensor<4x3xi32>) -> tensor<4x3xi32>
  // expected-error @below {{the region returns ['tensor<i1>']; end it by a stablehlo.return of i32 of rank 0}}
  %9 = "dtensor.scan"(%a) ({
  ^bb0(%p: tensor<i32>, %q: tensor<i32>):
    %8 = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %8 : tensor<i1>
  }) {dim = 0 : i64, reverse = 0 : i64} : (tensor<4x3xi32>) -> tensor<4x3xi32>
  return
}
