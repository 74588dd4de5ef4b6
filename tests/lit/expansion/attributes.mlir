// RUN: dtensor-opt %s --dtensor-expand | filecheck %s

// Attributes that speak of whole dimensions get the sizes of the shard.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @dynamic_slice
func.func @dynamic_slice(%a: tensor<6x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>}, %i: tensor<i32> {dtensor.layout = #dtensor.layout<@mesh, []>})
    -> (tensor<1x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>}) {
  // CHECK: stablehlo.dynamic_slice %{{.*}}, sizes = [1, 2] : (tensor<6x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
  %0 = "stablehlo.dynamic_slice"(%a, %i, %i) {slice_sizes = array<i64: 1, 8>, dtensor.results = [#dtensor.layout<@mesh, [{}, {"y"}]>]} : (tensor<6x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
  return %0 : tensor<1x8xf32>
}

// Each shard has three of the six groups.
// CHECK-LABEL: func.func @depthwise
func.func @depthwise(%a: tensor<2x5x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {"x"}]>}, %k: tensor<3x1x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {"x"}]>})
    -> (tensor<2x3x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {"x"}]>}) {
  // CHECK: stablehlo.convolution
  // CHECK-SAME: feature_group_count = 3 : i64
  // CHECK-SAME: (tensor<2x5x3xf32>, tensor<3x1x6xf32>) -> tensor<2x3x6xf32>
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {}
      {batch_group_count = 1 : i64, feature_group_count = 6 : i64, dtensor.results = [#dtensor.layout<@mesh, [{}, {}, {"x"}]>]} : (tensor<2x5x6xf32>, tensor<3x1x12xf32>) -> tensor<2x3x12xf32>
  return %0 : tensor<2x3x12xf32>
}

// The channels of both sides are split, the kernel is one group as before.
// CHECK-LABEL: func.func @contracted_channels
func.func @contracted_channels(%a: tensor<2x5x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {"x"}]>}, %k: tensor<3x6x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>})
    -> (tensor<2x3x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {}], partial = {sum: "x"}>}) {
  // CHECK: feature_group_count = 1 : i64
  // CHECK-SAME: (tensor<2x5x3xf32>, tensor<3x3x12xf32>) -> tensor<2x3x12xf32>
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.results = [#dtensor.layout<@mesh, [{}, {}, {}], partial = {sum: "x"}>]} : (tensor<2x5x6xf32>, tensor<3x6x12xf32>) -> tensor<2x3x12xf32>
  return %0 : tensor<2x3x12xf32>
}
