// RUN: dtensor-opt %s --mesh x=4 --split-input-file --dtensor-import --dtensor-propagate | filecheck %s

// Who spreads first, where costs alone would gather the other operand.

// The small batch would be gathered rather than the large weight, but it comes first.
// CHECK-LABEL: func.func @the_batch_first
// CHECK-SAME: -> (tensor<8x512xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
func.func @the_batch_first(%x: tensor<8x256xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %w: tensor<256x512xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}p2]>}) -> tensor<8x512xf32> {
  // CHECK: stablehlo.dot_general {{.*}} dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {}]>, #dtensor.layout<@mesh, [{}, {}]>]
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x256xf32>, tensor<256x512xf32>) -> tensor<8x512xf32>
  // CHECK: stablehlo.tanh {{.*}} dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]
  %1 = stablehlo.tanh %0 : tensor<8x512xf32>
  return %1 : tensor<8x512xf32>
}

// -----

// Equal numbers, whatever they are, say nothing: the cheaper one wins.
// CHECK-LABEL: func.func @equal_priorities_leave_it_to_costs
// CHECK-SAME: -> (tensor<8x512xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>})
func.func @equal_priorities_leave_it_to_costs(%x: tensor<8x256xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}p2, {}]>}, %w: tensor<256x512xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}p2]>}) -> tensor<8x512xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x256xf32>, tensor<256x512xf32>) -> tensor<8x512xf32>
  return %0 : tensor<8x512xf32>
}

// -----

// An open dimension is closed until its round, and takes what comes then.
// CHECK-LABEL: func.func @an_open_dimension_waits
// CHECK-SAME: %arg1: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}
func.func @an_open_dimension_waits(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %b: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{?}p2, {?}p1]>}, %c: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}p1]>}) -> (tensor<8x12xf32>, tensor<8x12xf32>) {
  %0 = stablehlo.add %a, %b : tensor<8x12xf32>
  %1 = stablehlo.add %b, %c : tensor<8x12xf32>
  return %0, %1 : tensor<8x12xf32>, tensor<8x12xf32>
}
