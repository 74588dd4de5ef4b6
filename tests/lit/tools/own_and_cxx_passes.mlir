// Our passes and C++ passes run in the order given, whichever way they are given.
// RUN: dtensor-opt %s --dtensor-drop-layouts --cse | filecheck %s
// RUN: dtensor-opt %s -p dtensor-drop-layouts,cse | filecheck %s
// RUN: dtensor-opt %s -p dtensor-drop-layouts -p cse | filecheck %s
// RUN: dtensor-opt %s --passes=dtensor-drop-layouts,cse | filecheck %s
// RUN: dtensor-opt %s --pass-pipeline='builtin.module(dtensor-drop-layouts, func.func(cse))' | filecheck %s
// RUN: dtensor-opt %s --pass-pipeline='builtin.module(dtensor-drop-layouts{keep-borders=false}, any(cse))' | filecheck %s

// In the other order cse still sees two different relayouts, and two operations stay.
// RUN: dtensor-opt %s --cse --dtensor-drop-layouts | filecheck %s --check-prefix=OTHER

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @equal_once_the_layouts_are_gone
// OTHER-LABEL: func.func @equal_once_the_layouts_are_gone
func.func @equal_once_the_layouts_are_gone(%arg0: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{"x"}, {}]>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{}, {"y"}]>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: %[[TANH:.*]] = stablehlo.tanh %arg0
  // CHECK-NOT: stablehlo.tanh
  // OTHER: stablehlo.tanh
  // OTHER: stablehlo.tanh
  %2 = stablehlo.tanh %0 : tensor<2x4xf32>
  %3 = stablehlo.tanh %1 : tensor<2x4xf32>
  // CHECK: stablehlo.add %[[TANH]], %[[TANH]]
  %4 = stablehlo.add %2, %3 : tensor<2x4xf32>
  return %4 : tensor<2x4xf32>
}
