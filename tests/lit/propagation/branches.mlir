// RUN: dtensor-opt %s --mesh x=2,y=4 --split-input-file --dtensor-import --dtensor-propagate | filecheck %s

// What all branches yield for one result has one layout, and so has the result.

// CHECK-LABEL: func.func @one_branch_leads_the_other
// CHECK-SAME: %arg2: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}
// CHECK-SAME: -> (tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
func.func @one_branch_leads_the_other(%p: tensor<i1>, %a: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %b: tensor<8x16xf32>) -> tensor<8x16xf32> {
  // CHECK: "stablehlo.if"
  %0 = "stablehlo.if"(%p) ({
    // CHECK: stablehlo.tanh {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]}
    %1 = stablehlo.tanh %a : tensor<8x16xf32>
    stablehlo.return %1 : tensor<8x16xf32>
  }, {
    stablehlo.return %b : tensor<8x16xf32>
  // CHECK: }) {dtensor.operands = [#dtensor.layout<@mesh, []>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<i1>)
  }) : (tensor<i1>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}

// -----

// The results of a case are laid out one by one; its index is whole.
// CHECK-LABEL: func.func @each_result_for_itself
func.func @each_result_for_itself(%i: tensor<i32>, %a: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}, %b: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>}) -> (tensor<8xf32>, tensor<8xf32>) {
  %0:2 = "stablehlo.case"(%i) ({
    stablehlo.return %a, %b : tensor<8xf32>, tensor<8xf32>
  }, {
    // CHECK: stablehlo.tanh %arg1 {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{"x"}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}]>]}
    %1 = stablehlo.tanh %a : tensor<8xf32>
    // CHECK: stablehlo.tanh %arg2 {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{"y"}]>], dtensor.results = [#dtensor.layout<@mesh, [{"y"}]>]}
    %2 = stablehlo.tanh %b : tensor<8xf32>
    stablehlo.return %1, %2 : tensor<8xf32>, tensor<8xf32>
  // CHECK: }) {dtensor.operands = [#dtensor.layout<@mesh, []>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}]>, #dtensor.layout<@mesh, [{"y"}]>]} : (tensor<i32>)
  }) : (tensor<i32>) -> (tensor<8xf32>, tensor<8xf32>)
  return %0#0, %0#1 : tensor<8xf32>, tensor<8xf32>
}
