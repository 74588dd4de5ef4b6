// RUN: dtensor-opt %s --mesh x=4 --split-input-file --dtensor-import --dtensor-propagate | filecheck %s

// A carried value has one layout: of what enters, of the body's argument and yield, of the result.

// CHECK-LABEL: func.func @a_carried_value_keeps_its_layout
// CHECK-SAME: -> (tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
func.func @a_carried_value_keeps_its_layout(%a: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<8x16xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %end = stablehlo.constant dense<5> : tensor<i32>
  // CHECK: stablehlo.while{{.*}} attributes {dtensor.operands = [#dtensor.layout<@mesh, []>, #dtensor.layout<@mesh, [{"x"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, []>, #dtensor.layout<@mesh, [{"x"}, {}]>]}
  %0:2 = stablehlo.while(%i = %zero, %c = %a) : tensor<i32>, tensor<8x16xf32>
    cond {
      // CHECK: stablehlo.compare {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, []>, #dtensor.layout<@mesh, []>], dtensor.results = [#dtensor.layout<@mesh, []>]}
      %p = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      // CHECK: stablehlo.tanh {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]}
      %1 = stablehlo.tanh %c : tensor<8x16xf32>
      %2 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %2, %1 : tensor<i32>, tensor<8x16xf32>
    }
  return %0#1 : tensor<8x16xf32>
}

// -----

// Moving the value once, before the loop, is cheaper than once per iteration.
// CHECK-LABEL: func.func @the_body_decides_over_what_enters
func.func @the_body_decides_over_what_enters(
    %a: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %w: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}) -> tensor<8x16xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %end = stablehlo.constant dense<5> : tensor<i32>
  // CHECK: stablehlo.while{{.*}} attributes {dtensor.operands = [#dtensor.layout<@mesh, []>, #dtensor.layout<@mesh, [{}, {"x"}]>], dtensor.results = [#dtensor.layout<@mesh, []>, #dtensor.layout<@mesh, [{}, {"x"}]>]}
  %0:2 = stablehlo.while(%i = %zero, %c = %a) : tensor<i32>, tensor<8x16xf32>
    cond {
      %p = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      // CHECK: stablehlo.add %{{.*}}, %arg1 {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}, {"x"}]>, #dtensor.layout<@mesh, [{}, {"x"}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}]>]}
      %1 = stablehlo.add %c, %w : tensor<8x16xf32>
      %2 = "dtensor.relayout"(%1) {layout = #dtensor.layout<@mesh, [{}, {"x"}]>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
      %3 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %3, %2 : tensor<i32>, tensor<8x16xf32>
    }
  return %0#1 : tensor<8x16xf32>
}

// -----

// A layout spreads from the result through the loop to what enters.
// CHECK-LABEL: func.func @a_result_reaches_what_enters
// CHECK-SAME: %arg0: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}
func.func @a_result_reaches_what_enters(%a: tensor<8x16xf32>) -> (tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %end = stablehlo.constant dense<5> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %c = %a) : tensor<i32>, tensor<8x16xf32>
    cond {
      %p = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %1 = stablehlo.tanh %c : tensor<8x16xf32>
      %2 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %2, %1 : tensor<i32>, tensor<8x16xf32>
    }
  return %0#1 : tensor<8x16xf32>
}

// -----

// Every device must take the same number of turns: the predicate is complete on each.
// CHECK-LABEL: func.func @a_predicate_is_whole
func.func @a_predicate_is_whole(%a: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) -> tensor<8xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  // CHECK: stablehlo.while
  %0 = stablehlo.while(%c = %a) : tensor<8xf32>
    cond {
      // CHECK: stablehlo.reduce{{.*}} dtensor.results = [#dtensor.layout<@mesh, [], partial = {sum: "x"}>]}
      %s = stablehlo.reduce(%c init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
      // CHECK: stablehlo.compare {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, []>, #dtensor.layout<@mesh, []>], dtensor.results = [#dtensor.layout<@mesh, []>]}
      %p = stablehlo.compare GT, %s, %zero : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %1 = stablehlo.subtract %c, %c : tensor<8xf32>
      stablehlo.return %1 : tensor<8xf32>
    }
  return %0 : tensor<8xf32>
}
