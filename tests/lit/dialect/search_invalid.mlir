// RUN: dtensor-opt %s --verify-diagnostics

func.func @main(%t: tensor<8xf32>, %m: tensor<8x2xf32>, %q: tensor<3xf32>) {
  // expected-error @below {{searches 9 elements of tensor<8xf32>; give a table of one dimension that has them}}
  %0 = "dtensor.search"(%t, %q) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %8 = stablehlo.compare LE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %8 : tensor<i1>
  }) {count = 9 : i64} : (tensor<8xf32>, tensor<3xf32>) -> tensor<3xui32>
  // expected-error @below {{searches 8 elements of tensor<8x2xf32>; give a table of one dimension that has them}}
  %1 = "dtensor.search"(%m, %q) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %8 = stablehlo.compare LE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %8 : tensor<i1>
  }) {count = 8 : i64} : (tensor<8x2xf32>, tensor<3xf32>) -> tensor<3xui32>
  // expected-error @below {{result is tensor<4xui32>; give it the shape of every query, and one query at least}}
  %2 = "dtensor.search"(%t, %q) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %8 = stablehlo.compare LE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %8 : tensor<i1>
  }) {count = 8 : i64} : (tensor<8xf32>, tensor<3xf32>) -> tensor<4xui32>
  // expected-error @below {{result is tensor<3xf32>, but places are integers; change the result type}}
  %3 = "dtensor.search"(%t, %q) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %8 = stablehlo.compare LE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %8 : tensor<i1>
  }) {count = 8 : i64} : (tensor<8xf32>, tensor<3xf32>) -> tensor<3xf32>
  // expected-error @below {{the region takes ['tensor<i32>']; give it a scalar of each query, then one of the table}}
  %4 = "dtensor.search"(%t, %q) ({
  ^bb0(%a: tensor<i32>):
    %8 = stablehlo.compare LE, %a, %a : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %8 : tensor<i1>
  }) {count = 8 : i64} : (tensor<8xf32>, tensor<3xf32>) -> tensor<3xui32>
  // expected-error @below {{the region returns ['tensor<f32>']; end it by a stablehlo.return of i1 of rank 0}}
  %5 = "dtensor.search"(%t, %q) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) {count = 8 : i64} : (tensor<8xf32>, tensor<3xf32>) -> tensor<3xui32>
  return
}
