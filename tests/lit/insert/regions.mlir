// RUN: dtensor-opt %s --mesh x=2,y=4 --split-input-file --dtensor-import --dtensor-propagate --dtensor-insert-relayouts | filecheck %s

// Predicates and indices are completed where they are made; the edges are in alone.mlir.

// The condition reads the carried value in its own layout.
// CHECK-LABEL: func.func @a_predicate_is_reduced_inside_the_condition
func.func @a_predicate_is_reduced_inside_the_condition(%a: tensor<65536xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) -> tensor<65536xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.while(%c = %a) : tensor<65536xf32>
    cond {
      // CHECK: %[[S:.*]] = stablehlo.reduce{{.*}}dtensor.results = [#dtensor.layout<@mesh, [], partial = {sum: "x"}>]}
      // CHECK: %[[W:.*]] = "dtensor.relayout"(%[[S]]) {dtensor.results = [#dtensor.layout<@mesh, []>]
      %s = stablehlo.reduce(%c init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<65536xf32>, tensor<f32>) -> tensor<f32>
      // CHECK: %[[P:.*]] = stablehlo.compare GT, %[[W]]
      %p = stablehlo.compare GT, %s, %zero : (tensor<f32>, tensor<f32>) -> tensor<i1>
      // CHECK: stablehlo.return %[[P]]
      stablehlo.return %p : tensor<i1>
    } do {
      %1 = stablehlo.subtract %c, %c : tensor<65536xf32>
      stablehlo.return %1 : tensor<65536xf32>
    }
  return %0 : tensor<65536xf32>
}

// -----

// A branch index is made whole before the branch.
// CHECK-LABEL: func.func @an_index_is_whole
func.func @an_index_is_whole(%a: tensor<8xi32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) -> tensor<i32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  // CHECK: %[[S:.*]] = stablehlo.reduce{{.*}}dtensor.results = [#dtensor.layout<@mesh, [], partial = {sum: "x"}>]}
  // CHECK: %[[W:.*]] = "dtensor.relayout"(%[[S]]) {dtensor.results = [#dtensor.layout<@mesh, []>]
  // CHECK: "stablehlo.case"(%[[W]])
  %s = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8xi32>, tensor<i32>) -> tensor<i32>
  %0 = "stablehlo.case"(%s) ({
    stablehlo.return %s : tensor<i32>
  }) : (tensor<i32>) -> tensor<i32>
  return %0 : tensor<i32>
}
