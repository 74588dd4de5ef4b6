// RUN: dtensor-opt %s --split-input-file --dtensor-fuse-cuts --canonicalize | filecheck %s

// Rows 0, 0, 1, 1, 2, 2 of three: each is repeated.
// CHECK-LABEL: func.func @main
// CHECK:         %[[LONG:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [0, 2] : (tensor<3x5xf32>) -> tensor<3x2x5xf32>
// CHECK:         %[[TWICE:.*]] = stablehlo.reshape %[[LONG]] : (tensor<3x2x5xf32>) -> tensor<6x5xf32>

// Rows 2 and 1 of three: a slice, the other way round.
// CHECK:         %[[CUT:.*]] = stablehlo.slice %arg0 [1:3, 0:5]
// CHECK:         %[[BACK:.*]] = stablehlo.reverse %[[CUT]], dims = [0]

// What is added to the repeated rows is summed two by two: no scatter.
// CHECK:         %[[PAIRS:.*]] = stablehlo.reshape %arg1 : (tensor<6x5xf32>) -> tensor<3x2x5xf32>
// CHECK:         %[[SUMS:.*]] = stablehlo.reduce(%[[PAIRS]] init: {{.*}}) applies stablehlo.add across dimensions = [1]
// CHECK:         %[[ADDED:.*]] = stablehlo.add %arg0, %[[SUMS]]

// Rows at positions that an argument says are gathered.
// CHECK:         %[[GIVEN:.*]] = "stablehlo.gather"(%arg0, %arg2)
// CHECK:         return %[[TWICE]], %[[BACK]], %[[ADDED]], %[[GIVEN]]
func.func @main(%a: tensor<3x5xf32>, %u: tensor<6x5xf32>, %at: tensor<2x1xi32>)
    -> (tensor<6x5xf32>, tensor<2x5xf32>, tensor<3x5xf32>, tensor<2x5xf32>) {
  %row = stablehlo.iota dim = 0 : tensor<6xf32>
  %two = stablehlo.constant dense<2.0> : tensor<6xf32>
  %half = stablehlo.divide %row, %two : tensor<6xf32>
  %down = stablehlo.floor %half : tensor<6xf32>
  %numbers = stablehlo.convert %down : (tensor<6xf32>) -> tensor<6xi32>
  %twice = stablehlo.broadcast_in_dim %numbers, dims = [0] : (tensor<6xi32>) -> tensor<6x1xi32>
  %back = stablehlo.constant dense<[[2], [1]]> : tensor<2x1xi32>
  %0 = "stablehlo.gather"(%a, %twice) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 5>}> : (tensor<3x5xf32>, tensor<6x1xi32>) -> tensor<6x5xf32>
  %1 = "stablehlo.gather"(%a, %back) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 5>}> : (tensor<3x5xf32>, tensor<2x1xi32>) -> tensor<2x5xf32>
  %2 = "stablehlo.scatter"(%a, %twice, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<3x5xf32>, tensor<6x1xi32>, tensor<6x5xf32>) -> tensor<3x5xf32>
  %3 = "stablehlo.gather"(%a, %at) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 5>}> : (tensor<3x5xf32>, tensor<2x1xi32>) -> tensor<2x5xf32>
  return %0, %1, %2, %3 : tensor<6x5xf32>, tensor<2x5xf32>, tensor<3x5xf32>, tensor<2x5xf32>
}

// -----

// Few rows of something large are added to in its place, unless it is zero.
// CHECK-LABEL: func.func @main
// CHECK:         %[[PLACED:.*]] = stablehlo.pad %arg1, {{.*}}, low = [3, 0], high = [4, 0], interior = [0, 0]
// CHECK:         stablehlo.add {{.*}}, %[[PLACED]]
// CHECK:         "stablehlo.scatter"(%arg0, {{.*}}, %arg1)
func.func @main(%a: tensor<8x5xf32>, %u: tensor<1x5xf32>) -> (tensor<8x5xf32>, tensor<8x5xf32>) {
  %at = stablehlo.constant dense<3> : tensor<1x1xi32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %zeros = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<8x5xf32>
  %0 = "stablehlo.scatter"(%zeros, %at, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8x5xf32>, tensor<1x1xi32>, tensor<1x5xf32>) -> tensor<8x5xf32>
  %1 = "stablehlo.scatter"(%a, %at, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8x5xf32>, tensor<1x1xi32>, tensor<1x5xf32>) -> tensor<8x5xf32>
  return %0, %1 : tensor<8x5xf32>, tensor<8x5xf32>
}

// -----

// Frames 0, 1, 2, 3 and 2, 3, 4, 5 of six: rows of two, each beside the next; backwards they are added.
// CHECK-LABEL: func.func @main
// CHECK:         %[[ROWS:.*]] = stablehlo.reshape %arg0 : (tensor<6x5xf32>) -> tensor<3x2x5xf32>
// CHECK-DAG:     %[[FIRST:.*]] = stablehlo.slice %[[ROWS]] [0:2, 0:2, 0:5]
// CHECK-DAG:     %[[NEXT:.*]] = stablehlo.slice %[[ROWS]] [1:3, 0:2, 0:5]
// CHECK:         %[[FRAMES:.*]] = stablehlo.concatenate %[[FIRST]], %[[NEXT]], dim = 1 : {{.*}} -> tensor<2x4x5xf32>
// CHECK:         %[[ADDED:.*]] = stablehlo.add {{.*}} : tensor<3x2x5xf32>
// CHECK:         stablehlo.reshape %[[ADDED]] : (tensor<3x2x5xf32>) -> tensor<6x5xf32>

// Positions that are no frames are gathered.
// CHECK:         %[[OTHER:.*]] = "stablehlo.gather"
// CHECK:         return %[[FRAMES]], {{.*}}, %[[OTHER]]
func.func @main(%a: tensor<6x5xf32>, %u: tensor<2x4x5xf32>)
    -> (tensor<2x4x5xf32>, tensor<6x5xf32>, tensor<2x4x5xf32>) {
  %at = stablehlo.constant dense<[[[0], [1], [2], [3]], [[2], [3], [4], [5]]]> : tensor<2x4x1xi32>
  %uneven = stablehlo.constant dense<[[[0], [1], [2], [3]], [[2], [3], [5], [4]]]> : tensor<2x4x1xi32>
  %zero = stablehlo.constant dense<0.0> : tensor<6x5xf32>
  %0 = "stablehlo.gather"(%a, %at) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 5>}> : (tensor<6x5xf32>, tensor<2x4x1xi32>) -> tensor<2x4x5xf32>
  %1 = "stablehlo.scatter"(%zero, %at, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<6x5xf32>, tensor<2x4x1xi32>, tensor<2x4x5xf32>) -> tensor<6x5xf32>
  %2 = "stablehlo.gather"(%a, %uneven) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 5>}> : (tensor<6x5xf32>, tensor<2x4x1xi32>) -> tensor<2x4x5xf32>
  return %0, %1, %2 : tensor<2x4x5xf32>, tensor<6x5xf32>, tensor<2x4x5xf32>
}

// -----

// A position beyond the end is the last one, also where no signed integer holds it.
// CHECK-LABEL: func.func @main
// CHECK:         stablehlo.slice %arg0 [2:3, 0:5]
func.func @main(%a: tensor<3x5xf32>) -> tensor<1x5xf32> {
  %at = stablehlo.constant dense<18446744073709551615> : tensor<1x1xui64>
  %0 = "stablehlo.gather"(%a, %at) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 5>}> : (tensor<3x5xf32>, tensor<1x1xui64>) -> tensor<1x5xf32>
  return %0 : tensor<1x5xf32>
}
