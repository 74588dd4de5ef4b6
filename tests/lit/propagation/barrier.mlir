// RUN: dtensor-opt %s --mesh x=2,y=4 --dtensor-import --dtensor-propagate | filecheck %s

// The operands of a barrier have nothing to do with each other's layouts.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %arg2: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}
func.func @main(%a: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %b: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>}, %c: tensor<8x16xf32>)
    -> (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>) {
  // CHECK: stablehlo.optimization_barrier {dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {}]>, #dtensor.layout<@mesh, [{}, {"y"}]>, #dtensor.layout<@mesh, [{}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>, #dtensor.layout<@mesh, [{}, {"y"}]>, #dtensor.layout<@mesh, [{}, {}]>]}
  %0:3 = stablehlo.optimization_barrier %a, %b, %c : tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>
  return %0#0, %0#1, %0#2 : tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>
}
