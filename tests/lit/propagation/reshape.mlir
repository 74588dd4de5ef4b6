// RUN: dtensor-opt %s --mesh x=2,y=4 --split-input-file --dtensor-import --dtensor-propagate | filecheck %s

// A reshape regroups digits, and is free where the cut lies on a digit.

// CHECK-LABEL: func.func @splitting_a_dimension_deals_its_axes_out
// CHECK-SAME: -> (tensor<2x8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}, {}]>})
func.func @splitting_a_dimension_deals_its_axes_out(%a: tensor<16x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x", "y"}, {}]>}) -> tensor<2x8x3xf32> {
  // CHECK: stablehlo.reshape {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{"x", "y"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {"y"}, {}]>]}
  %0 = stablehlo.reshape %a : (tensor<16x3xf32>) -> tensor<2x8x3xf32>
  return %0 : tensor<2x8x3xf32>
}

// -----

// 4 devices on 2x8: the axis is cut in two.
// CHECK-LABEL: func.func @an_axis_larger_than_a_dimension_is_cut
// CHECK-SAME: -> (tensor<2x8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y":(1)2}, {"y":(2)2}, {}]>})
func.func @an_axis_larger_than_a_dimension_is_cut(%a: tensor<16x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}) -> tensor<2x8x3xf32> {
  // CHECK: stablehlo.reshape {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{"y"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{"y":(1)2}, {"y":(2)2}, {}]>]}
  %0 = stablehlo.reshape %a : (tensor<16x3xf32>) -> tensor<2x8x3xf32>
  return %0 : tensor<2x8x3xf32>
}

// -----

// CHECK-LABEL: func.func @merging_dimensions_gathers_their_axes
// CHECK-SAME: -> (tensor<32xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x", "y"}]>})
func.func @merging_dimensions_gathers_their_axes(%a: tensor<2x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}]>}) -> tensor<32xf32> {
  // CHECK: stablehlo.reshape {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {"y"}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x", "y"}]>]}
  %0 = stablehlo.reshape %a : (tensor<2x16xf32>) -> tensor<32xf32>
  return %0 : tensor<32xf32>
}

// -----

// Three rows, each split: blocks. A result cannot have them, the operations between can.
// CHECK-LABEL: func.func @a_split_minor_dimension_becomes_blocks
// CHECK-SAME: -> (tensor<24xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>})
func.func @a_split_minor_dimension_becomes_blocks(%a: tensor<3x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}) -> tensor<24xf32> {
  // CHECK: stablehlo.reshape {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}, {"x"}]>], dtensor.results = [#dtensor.layout<@mesh, [{3, "x"}]>]}
  %0 = stablehlo.reshape %a : (tensor<3x8xf32>) -> tensor<24xf32>
  // CHECK: stablehlo.tanh {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{3, "x"}]>], dtensor.results = [#dtensor.layout<@mesh, [{3, "x"}]>]}
  %1 = stablehlo.tanh %0 : tensor<24xf32>
  return %1 : tensor<24xf32>
}

// -----

// Blocks come apart where the dimension is split again: nothing was moved.
// CHECK-LABEL: func.func @blocks_come_apart_again
// CHECK-SAME: -> (tensor<3x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>})
func.func @blocks_come_apart_again(%a: tensor<3x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}) -> tensor<3x8xf32> {
  // CHECK: stablehlo.reshape {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}, {"x"}]>], dtensor.results = [#dtensor.layout<@mesh, [{3, "x"}]>]}
  %0 = stablehlo.reshape %a : (tensor<3x8xf32>) -> tensor<24xf32>
  // CHECK: stablehlo.reshape {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{3, "x"}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}]>]}
  %1 = stablehlo.reshape %0 : (tensor<24xf32>) -> tensor<3x8xf32>
  return %1 : tensor<3x8xf32>
}

// -----

// 16 = 4x4 and 16 = 8x2: the digit (1, 4) of the first split stays a digit of the second.
// CHECK-LABEL: func.func @a_cut_on_a_digit_is_free
func.func @a_cut_on_a_digit_is_free(%a: tensor<4x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}) -> tensor<8x2xf32> {
  // CHECK: stablehlo.reshape {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{"y"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{"y"}, {}]>]}
  %0 = stablehlo.reshape %a : (tensor<4x4xf32>) -> tensor<8x2xf32>
  return %0 : tensor<8x2xf32>
}

// -----

// Rows of the operand end inside rows of the result: blocks again, to which the operand is moved.
// CHECK-LABEL: func.func @a_cut_inside_a_row_is_made_of_blocks
func.func @a_cut_inside_a_row_is_made_of_blocks(%a: tensor<6x2xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<3x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}) {
  // CHECK: stablehlo.reshape {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{3, "x"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}]>]}
  %0 = stablehlo.reshape %a : (tensor<6x2xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// Every second element is no digit of 2x3, and every third none of 3x2: all is gathered and cut.
// CHECK-LABEL: func.func @a_cut_beside_every_digit_is_not_free
func.func @a_cut_beside_every_digit_is_not_free(%a: tensor<3x2xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}) -> (tensor<2x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // CHECK: stablehlo.reshape {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]}
  %0 = stablehlo.reshape %a : (tensor<3x2xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
