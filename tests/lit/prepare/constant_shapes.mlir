// RUN: dtensor-opt %s --dtensor-prepare | filecheck %s

// Other frameworks write shapes as operands, also where they are constants.

// CHECK-LABEL: func.func @main
// CHECK-NOT: dynamic_
func.func @main(%a: tensor<8x12xf32>, %i: tensor<4x2xi32>) -> (tensor<4x2x3xf32>, tensor<4x24xf32>, tensor<5x8x12xf32>, tensor<4x6xf32>, tensor<10x15xf32>) {
  %sizes = stablehlo.constant dense<[2, 3]> : tensor<2xi32>
  // CHECK: "stablehlo.gather"(%arg0, %arg1) {{.*}} slice_sizes = array<i64: 2, 3>
  %0 = "stablehlo.dynamic_gather"(%a, %i, %sizes) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2], start_index_map = [0, 1], index_vector_dim = 1>, indices_are_sorted = false}> : (tensor<8x12xf32>, tensor<4x2xi32>, tensor<2xi32>) -> tensor<4x2x3xf32>
  %shape = stablehlo.constant dense<[4, 24]> : tensor<2xi32>
  // CHECK: stablehlo.reshape %arg0 : (tensor<8x12xf32>) -> tensor<4x24xf32>
  %1 = stablehlo.dynamic_reshape %a, %shape : (tensor<8x12xf32>, tensor<2xi32>) -> tensor<4x24xf32>
  %more = stablehlo.constant dense<[5, 8, 12]> : tensor<3xi32>
  // CHECK: stablehlo.broadcast_in_dim %arg0, dims = [1, 2]
  %2 = stablehlo.dynamic_broadcast_in_dim %a, %more, dims = [1, 2] : (tensor<8x12xf32>, tensor<3xi32>) -> tensor<5x8x12xf32>
  %from = stablehlo.constant dense<[0, 2]> : tensor<2xi32>
  %to = stablehlo.constant dense<[8, 8]> : tensor<2xi32>
  %by = stablehlo.constant dense<[2, 1]> : tensor<2xi32>
  // CHECK: stablehlo.slice %arg0 [0:8:2, 2:8]
  %3 = stablehlo.real_dynamic_slice %a, %from, %to, %by : (tensor<8x12xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<4x6xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %none = stablehlo.constant dense<0> : tensor<2xi32>
  // CHECK: stablehlo.pad %arg0, %{{.*}}, low = [0, 2], high = [2, 1], interior = [0, 0]
  %high = stablehlo.constant dense<[2, 1]> : tensor<2xi32>
  %4 = stablehlo.dynamic_pad %a, %zero, %from, %high, %none : (tensor<8x12xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<10x15xf32>
  return %0, %1, %2, %3, %4 : tensor<4x2x3xf32>, tensor<4x24xf32>, tensor<5x8x12xf32>, tensor<4x6xf32>, tensor<10x15xf32>
}
