// RUN: dtensor-opt %s --split-input-file --dtensor-import | filecheck %s

// Modules that are annotated for dtensor keep what they say.

// CHECK: "dtensor.mesh"() {mesh = #dtensor.mesh<["x"=2, "y"=4]>, sym_name = "grid"}
// CHECK-NOT: dtensor.mesh
"dtensor.mesh"() {sym_name = "grid", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK-SAME: %arg0: tensor<4x8xf32> {dtensor.layout = #dtensor.layout<@grid, [{"x"}, {"y"}]>}
// CHECK-SAME: -> (tensor<4x8xf32> {dtensor.layout = #dtensor.layout<@grid, [{}, {?}]>})
func.func @main(%a: tensor<4x8xf32> {dtensor.layout = #dtensor.layout<@grid, [{"x"}, {"y"}]>})
    -> (tensor<4x8xf32> {dtensor.layout = #dtensor.layout<@grid, [{}, {?}]>}) {
  // CHECK: "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@grid, [{"y"}, {}], partial = {sum: "x"}>}
  %0 = "dtensor.relayout"(%a) {layout = #dtensor.layout<@grid, [{"y"}, {}], partial = {sum: "x"}>}
      : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// Meshes with the same axes are one mesh.

"dtensor.mesh"() {sym_name = "first", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
"dtensor.mesh"() {sym_name = "second", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @two_equal_meshes
// CHECK-SAME: %arg0: tensor<4xf32> {dtensor.layout = #dtensor.layout<@first, [{"x"}]>}
// CHECK-SAME: %arg1: tensor<4xf32> {dtensor.layout = #dtensor.layout<@first, [{"x"}]>}
func.func @two_equal_meshes(
    %a: tensor<4xf32> {dtensor.layout = #dtensor.layout<@first, [{"x"}]>},
    %b: tensor<4xf32> {dtensor.layout = #dtensor.layout<@second, [{"x"}]>}) -> tensor<4xf32> {
  // CHECK: "dtensor.relayout"(%arg1) {layout = #dtensor.layout<@first, [{}]>}
  %0 = "dtensor.relayout"(%b) {layout = #dtensor.layout<@second, [{}]>}
      : (tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.add %a, %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// Functions that nothing is left to call go: what was inlined, decompositions of composites.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
// CHECK-NOT: @callee
func.func private @callee(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
// CHECK: func.func @main
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
