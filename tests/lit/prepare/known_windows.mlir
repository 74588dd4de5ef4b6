// RUN: dtensor-opt %s --split-input-file --dtensor-fuse-cuts --canonicalize | filecheck %s

// A dynamic slice at a known place is a slice, moved inside where it would reach outside.
// CHECK-LABEL: func.func @main
// CHECK:         %[[ONE:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<f32>
// CHECK:         %[[READ:.*]] = stablehlo.slice %arg0 [2:5, 0:7]
// What is put into most of ones is padded with ones; so is a window that a scatter sets.
// CHECK:         %[[PADDED:.*]] = stablehlo.pad %arg0, %[[ONE]], low = [1, 0], high = [2, 1]
// CHECK:         %[[SET:.*]] = stablehlo.pad %arg0, %[[ONE]], low = [3, 1], high = [0, 0]
// CHECK:         return %[[READ]], %[[PADDED]], %[[SET]]
func.func @main(%a: tensor<5x7xf32>) -> (tensor<3x7xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %far = stablehlo.constant dense<9> : tensor<i32>
  %at = stablehlo.constant dense<[3, 1]> : tensor<2xi32>
  %fill = stablehlo.constant dense<1.0> : tensor<f32>
  %0 = stablehlo.dynamic_slice %a, %far, %far, sizes = [3, 7] : (tensor<5x7xf32>, tensor<i32>, tensor<i32>) -> tensor<3x7xf32>
  %ones = stablehlo.broadcast_in_dim %fill, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
  %1 = stablehlo.dynamic_update_slice %ones, %a, %one, %zero : (tensor<8x8xf32>, tensor<5x7xf32>, tensor<i32>, tensor<i32>) -> tensor<8x8xf32>
  %2 = "stablehlo.scatter"(%ones, %at, %a) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1]>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %y : tensor<f32>
  }) : (tensor<8x8xf32>, tensor<2xi32>, tensor<5x7xf32>) -> tensor<8x8xf32>
  return %0, %1, %2 : tensor<3x7xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// What is small beside the whole, or would reach outside where that drops it, stays an update, and
// so does what an argument places.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     stablehlo.pad
// CHECK:         stablehlo.dynamic_update_slice
// CHECK:         "stablehlo.scatter"
// CHECK:         stablehlo.dynamic_slice
func.func @main(%a: tensor<3x7xf32>, %b: tensor<7x7xf32>, %i: tensor<i32>) -> (tensor<8x7xf32>, tensor<8x7xf32>, tensor<2x7xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<1xi32>
  %fill = stablehlo.constant dense<1.0> : tensor<f32>
  %ones = stablehlo.broadcast_in_dim %fill, dims = [] : (tensor<f32>) -> tensor<8x7xf32>
  %0 = stablehlo.dynamic_update_slice %ones, %a, %zero, %zero : (tensor<8x7xf32>, tensor<3x7xf32>, tensor<i32>, tensor<i32>) -> tensor<8x7xf32>
  %1 = "stablehlo.scatter"(%ones, %two, %b) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1], scatter_dims_to_operand_dims = [0]>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %y : tensor<f32>
  }) : (tensor<8x7xf32>, tensor<1xi32>, tensor<7x7xf32>) -> tensor<8x7xf32>
  %2 = stablehlo.dynamic_slice %a, %i, %zero, sizes = [2, 7] : (tensor<3x7xf32>, tensor<i32>, tensor<i32>) -> tensor<2x7xf32>
  return %0, %1, %2 : tensor<8x7xf32>, tensor<8x7xf32>, tensor<2x7xf32>
}

// -----

// Several windows, whose places are one number each and no vector, stay a scatter.
// CHECK-LABEL: func.func @main
// CHECK:         "stablehlo.scatter"(%arg0
func.func @main(%x: tensor<8xf32>, %u: tensor<4x2xf32>) -> (tensor<8xf32>, tensor<6xf32>) {
  %places = stablehlo.constant dense<[1, 3]> : tensor<2xi32>
  %0 = "stablehlo.scatter"(%x, %places, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    stablehlo.return %b : tensor<f32>
  }) : (tensor<8xf32>, tensor<2xi32>, tensor<4x2xf32>) -> tensor<8xf32>
  %1 = stablehlo.slice %x [1:7] : (tensor<8xf32>) -> tensor<6xf32>
  return %0, %1 : tensor<8xf32>, tensor<6xf32>
}
