// RUN: dtensor-opt %s --split-input-file --mesh x=2,y=4 -p dtensor-import,dtensor-fuse-cuts | filecheck %s

// Of each row the 8 before it and it. As many neighbours as a shard has are cut together, 16 rows in
// which each frame begins one further on: the 8 before theirs, which neighbours send, and their own.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<32x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}) -> tensor<32x9x5xf32> {
  // CHECK: %[[BEFORE:.*]] = "dtensor.splice"(%arg0, %{{.*}}) {counts = array<i64: 8, 24>, {{.*}} : (tensor<32x5xf32>, tensor<f32>) -> tensor<32x5xf32>
  // CHECK: stablehlo.reshape %[[BEFORE]] : (tensor<32x5xf32>) -> tensor<4x8x5xf32>
  // CHECK: stablehlo.reshape %arg0 : (tensor<32x5xf32>) -> tensor<4x8x5xf32>
  // CHECK: %[[WIDE:.*]] = stablehlo.concatenate {{.*}}, dim = 1 : (tensor<4x8x5xf32>, tensor<4x8x5xf32>) -> tensor<4x16x5xf32>
  // CHECK: %[[EACH:.*]] = stablehlo.broadcast_in_dim %[[WIDE]], dims = [0, 2, 3] : (tensor<4x16x5xf32>) -> tensor<4x8x16x5xf32>
  // CHECK: stablehlo.reshape %{{.*}} : (tensor<4x136x5xf32>) -> tensor<4x8x17x5xf32>
  // CHECK: %[[FRAMES:.*]] = stablehlo.reshape %{{.*}} : (tensor<4x8x9x5xf32>) -> tensor<32x9x5xf32>
  // CHECK: return %[[FRAMES]]
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %frame = stablehlo.iota dim = 0 : tensor<32x9x1xi32>
  %element = stablehlo.iota dim = 1 : tensor<32x9x1xi32>
  %at = stablehlo.add %frame, %element : tensor<32x9x1xi32>
  %p = stablehlo.pad %a, %zero, low = [8, 0], high = [0, 0], interior = [0, 0] : (tensor<32x5xf32>, tensor<f32>) -> tensor<40x5xf32>
  %0 = "stablehlo.gather"(%p, %at) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 5>}> : (tensor<40x5xf32>, tensor<32x9x1xi32>) -> tensor<32x9x5xf32>
  return %0 : tensor<32x9x5xf32>
}

// -----

// Where nothing is split they are gathered.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<24x5xf32>) -> tensor<16x9x5xf32> {
  // CHECK: "stablehlo.gather"
  %frame = stablehlo.iota dim = 0 : tensor<16x9x1xi32>
  %element = stablehlo.iota dim = 1 : tensor<16x9x1xi32>
  %at = stablehlo.add %frame, %element : tensor<16x9x1xi32>
  %0 = "stablehlo.gather"(%a, %at) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 5>}> : (tensor<24x5xf32>, tensor<16x9x1xi32>) -> tensor<16x9x5xf32>
  return %0 : tensor<16x9x5xf32>
}
