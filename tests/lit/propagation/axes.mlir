// RUN: dtensor-opt %s --mesh x=2,y=4 --split-input-file --dtensor-import --dtensor-propagate | filecheck %s

// Several axes, and parts of axes, on one dimension.

// CHECK-LABEL: func.func @two_axes_on_one_dimension_keep_their_order
// CHECK-SAME: -> (tensor<4x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y", "x"}]>})
func.func @two_axes_on_one_dimension_keep_their_order(%a: tensor<16x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y", "x"}, {}]>}) -> tensor<4x16xf32> {
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<16x4xf32>) -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}

// -----

// CHECK-LABEL: func.func @half_an_axis_on_each_dimension
// CHECK-SAME: -> (tensor<4x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y":(2)2}, {"y":(1)2}]>})
func.func @half_an_axis_on_each_dimension(%a: tensor<8x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y":(1)2}, {"y":(2)2}]>}) -> tensor<4x8xf32> {
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// Where one operand is cut by half an axis and the other by all of it, the halves are decided apart.
// CHECK-LABEL: func.func @a_half_meets_a_whole
func.func @a_half_meets_a_whole(
    %a: tensor<8x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y":(1)2}, {}]>}, %b: tensor<8x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}) -> tensor<8x4xf32> {
  // CHECK: stablehlo.add {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{"y"}, {}]>, #dtensor.layout<@mesh, [{"y"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{"y"}, {}]>]}
  %0 = stablehlo.add %a, %b : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

// One axis per operand, on the same dimension of the sum: the second goes behind the first.
// CHECK-LABEL: func.func @two_axes_meet_on_one_dimension
func.func @two_axes_meet_on_one_dimension(
    %a: tensor<16x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %b: tensor<16x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>})
    -> (tensor<16x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x", "y"}, {}]>}) {
  // CHECK: stablehlo.add {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{"x", "y"}, {}]>, #dtensor.layout<@mesh, [{"x", "y"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x", "y"}, {}]>]}
  %0 = stablehlo.add %a, %b : tensor<16x4xf32>
  return %0 : tensor<16x4xf32>
}
