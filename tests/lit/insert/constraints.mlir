// RUN: dtensor-opt %s --mesh x=2,y=4 --split-input-file --dtensor-import --dtensor-propagate --dtensor-insert-relayouts | filecheck %s

// Constraints have been decided; what stays is the move they ask for.

// CHECK-LABEL: func.func @a_constraint_that_agrees_is_gone
func.func @a_constraint_that_agrees_is_gone(%a: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<8x16xf32> {
  // CHECK-NOT: dtensor.relayout
  // CHECK: %[[T:.*]] = stablehlo.tanh %arg0
  %0 = "dtensor.relayout"(%a) {layout = #dtensor.layout<@mesh, [{"x"}, {?}]>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %1 = stablehlo.tanh %0 : tensor<8x16xf32>
  %2 = "dtensor.relayout"(%1) {layout = #dtensor.layout<@mesh, [{"x"}, {}]>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  // CHECK: return %[[T]]
  return %2 : tensor<8x16xf32>
}

// -----

// CHECK-LABEL: func.func @a_constraint_that_moves_is_one_relayout
func.func @a_constraint_that_moves_is_one_relayout(%a: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}]>}) -> tensor<8x16xf32> {
  // CHECK: %[[T:.*]] = stablehlo.tanh %arg0 {dtensor.algorithm = "local", dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {"y"}]>]}
  %0 = stablehlo.tanh %a : tensor<8x16xf32>
  // CHECK-NEXT: %[[R:.*]] = "dtensor.relayout"(%[[T]]) {dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}]>], layout = #dtensor.layout<@mesh, [{}, {"x"}]>}
  %1 = "dtensor.relayout"(%0) {layout = #dtensor.layout<@mesh, [{}, {"x"}]>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  // CHECK-NEXT: stablehlo.exponential %[[R]] {dtensor.algorithm = "local", dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}]>]}
  %2 = stablehlo.exponential %1 : tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}

// -----

// Two constraints after each other: the value goes through both layouts, as was asked.
// CHECK-LABEL: func.func @a_chain_of_constraints
func.func @a_chain_of_constraints(%a: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}) {
  // CHECK: %[[R:.*]] = "dtensor.relayout"(%arg0) {dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}]>]
  %0 = "dtensor.relayout"(%a) {layout = #dtensor.layout<@mesh, [{}, {"x"}]>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  // CHECK: %[[S:.*]] = "dtensor.relayout"(%[[R]]) {dtensor.results = [#dtensor.layout<@mesh, [{"y"}, {}]>]
  // CHECK: return %[[S]]
  %1 = "dtensor.relayout"(%0) {layout = #dtensor.layout<@mesh, [{"y"}, {}]>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}
