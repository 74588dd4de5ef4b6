// RUN: dtensor-opt %s --mesh x=2,y=4 --split-input-file --dtensor-import --dtensor-propagate | filecheck %s

// What nobody disagrees with spreads from arguments to results and back, through every operation.

// CHECK-LABEL: func.func @an_argument_spreads_forward
// CHECK-SAME: -> (tensor<3x4x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}, {"x"}]>})
func.func @an_argument_spreads_forward(%a: tensor<8x3x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}, {"y"}]>}) -> tensor<3x4x8xf32> {
  // CHECK: stablehlo.tanh %arg0 {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {}, {"y"}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}, {"y"}]>]}
  %0 = stablehlo.tanh %a : tensor<8x3x4xf32>
  // CHECK: stablehlo.transpose %0, {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {}, {"y"}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {"y"}, {"x"}]>]}
  %1 = stablehlo.transpose %0, dims = [1, 2, 0] : (tensor<8x3x4xf32>) -> tensor<3x4x8xf32>
  return %1 : tensor<3x4x8xf32>
}

// -----

// CHECK-LABEL: func.func @a_result_spreads_backward
// CHECK-SAME: %arg0: tensor<8x3x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}, {"y"}]>}
func.func @a_result_spreads_backward(%a: tensor<8x3x4xf32>) -> (tensor<3x4x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}, {"x"}]>}) {
  // CHECK: stablehlo.tanh %arg0 {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {}, {"y"}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}, {"y"}]>]}
  %0 = stablehlo.tanh %a : tensor<8x3x4xf32>
  %1 = stablehlo.transpose %0, dims = [1, 2, 0] : (tensor<8x3x4xf32>) -> tensor<3x4x8xf32>
  return %1 : tensor<3x4x8xf32>
}

// -----

// From one argument through the operation to the other argument.
// CHECK-LABEL: func.func @a_free_argument_follows_what_it_meets
// CHECK-SAME: %arg1: tensor<16x32xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}]>}
func.func @a_free_argument_follows_what_it_meets(
    %a: tensor<16x32xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}]>}, %b: tensor<16x32xf32>) -> tensor<16x32xf32> {
  %0 = stablehlo.multiply %a, %b : tensor<16x32xf32>
  return %0 : tensor<16x32xf32>
}

// -----

// CHECK-LABEL: func.func @rows_and_columns_of_a_matmul_divide_among_all
// CHECK-SAME: -> (tensor<8x32xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}]>})
func.func @rows_and_columns_of_a_matmul_divide_among_all(
    %a: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %b: tensor<16x32xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>}) -> tensor<8x32xf32> {
  // CHECK: stablehlo.dot_general {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {}]>, #dtensor.layout<@mesh, [{}, {"y"}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {"y"}]>]}
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  return %0 : tensor<8x32xf32>
}

// -----

// CHECK-LABEL: func.func @what_no_annotation_reaches_is_whole
// CHECK-SAME: %arg0: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}
// CHECK-SAME: -> (tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}, tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>})
func.func @what_no_annotation_reaches_is_whole(%a: tensor<8xf32>, %b: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK: stablehlo.tanh %arg0 {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}]>], dtensor.results = [#dtensor.layout<@mesh, [{}]>]}
  %0 = stablehlo.tanh %a : tensor<8xf32>
  return %0, %b : tensor<8xf32>, tensor<8xf32>
}

// -----

// The result's 6 rows cannot be divided by 4, so the operand is not either.
// CHECK-LABEL: func.func @a_dimension_that_does_not_divide_stays_whole
// CHECK-SAME: -> (tensor<6x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>})
func.func @a_dimension_that_does_not_divide_stays_whole(%a: tensor<8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}) -> tensor<6x3xf32> {
  // CHECK: stablehlo.slice {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]}
  %0 = stablehlo.slice %a [0:6, 0:3] : (tensor<8x3xf32>) -> tensor<6x3xf32>
  return %0 : tensor<6x3xf32>
}

// -----

// A result that is laid out by hand keeps that layout, whatever arrives.
// CHECK-LABEL: func.func @a_given_result_is_kept
// CHECK-SAME: -> (tensor<8x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>})
func.func @a_given_result_is_kept(%a: tensor<8x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<8x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>}) {
  return %a : tensor<8x4xf32>
}

// -----

// An argument with open dimensions takes more axes there, and only there.
// CHECK-LABEL: func.func @open_dimensions_of_an_argument
// CHECK-SAME: %arg0: tensor<8x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}]>}
// CHECK-SAME: %arg1: tensor<8x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}
func.func @open_dimensions_of_an_argument(
    %a: tensor<8x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {?}]>}, %b: tensor<8x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<8x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}]>}) {
  %0 = stablehlo.add %a, %b : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
