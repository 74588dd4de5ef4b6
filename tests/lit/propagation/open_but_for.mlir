// RUN: dtensor-opt %s --mesh x=2,y=4 --split-input-file --dtensor-import --dtensor-propagate --dtensor-verify-plan | filecheck %s

// An open dimension takes no axis that is kept out of it.

// CHECK-LABEL: func.func @one_axis_is_kept_out
// CHECK-SAME: -> (tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>})
func.func @one_axis_is_kept_out(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}]>}) -> (tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{?!"x"}, {?}]>}) {
  %0 = stablehlo.tanh %a : tensor<8x12xf32>
  return %0 : tensor<8x12xf32>
}

// -----

// What Shardy says is replicated.
// CHECK-LABEL: func.func @replicated
// CHECK-SAME: %arg1: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}
func.func @replicated(%a: tensor<8x12xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=2, "y"=4]>, [{"x"}, {"y"}]>}, %b: tensor<8x12xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=2, "y"=4]>, [{?}, {?}], replicated={"y"}>}) -> tensor<8x12xf32> {
  %0 = stablehlo.add %a, %b : tensor<8x12xf32>
  return %0 : tensor<8x12xf32>
}
