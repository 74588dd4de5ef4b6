// RUN: dtensor-opt %s --dtensor-expand | filecheck %s

// The second shard's windows begin between two elements of an input with gaps: both shards compute
// from the place of an element on, and leave out what is not their own.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @nine_results_each
func.func @nine_results_each(%a: tensor<1x8x1xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}, %k: tensor<3x1x1xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {}]>})
    -> (tensor<1x18x1xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}) {
  // No shard reads an element of the one before: in front of the first is padding.
  // CHECK-NEXT: "dtensor.halo_exchange"(%arg0) {{.*}} high = 1 : i64, low = 0 : i64
  // CHECK: stablehlo.pad %{{.*}}, low = [0, 1, 0], high = [0, 0, 0], {{.*}} -> tensor<1x6x1xf32>
  // CHECK: %[[X:.*]] = "dtensor.axis_index"
  // CHECK-NOT: dynamic_slice
  // CHECK: %[[TEN:.*]] = stablehlo.convolution({{.*}}pad = {{\[\[}}0, 1]], lhs_dilate = [2]{{.*}} -> tensor<1x10x1xf32>
  // CHECK: %[[AT:.*]] = stablehlo.remainder
  // CHECK: stablehlo.dynamic_slice %[[TEN]], %{{.*}}, %[[AT]], %{{.*}}, sizes = [1, 9, 1]
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[2, 3]], lhs_dilate = [2]}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}, {}]>]} : (tensor<1x8x1xf32>, tensor<3x1x1xf32>) -> tensor<1x18x1xf32>
  return %0 : tensor<1x18x1xf32>
}

// The gradient of the kernel: each of its places is one result more, of both shards.
// CHECK-LABEL: func.func @of_a_kernel
func.func @of_a_kernel(%a: tensor<1x8x1xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}, %k: tensor<18x1x1xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}, {}]>})
    -> (tensor<1x3x1xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {}], partial = {sum: "x"}>}) {
  // CHECK: %[[FOUR:.*]] = stablehlo.convolution({{.*}} (tensor<1x6x1xf32>, tensor<9x1x1xf32>) -> tensor<1x4x1xf32>
  // CHECK: stablehlo.dynamic_slice %[[FOUR]], {{.*}} sizes = [1, 3, 1]
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[2, 3]], lhs_dilate = [2]}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.results = [#dtensor.layout<@mesh, [{}, {}, {}], partial = {sum: "x"}>]} : (tensor<1x8x1xf32>, tensor<18x1x1xf32>) -> tensor<1x3x1xf32>
  return %0 : tensor<1x3x1xf32>
}

// So do other windows; what is beyond the tensor is left out by its index.
// CHECK-LABEL: func.func @maxima
func.func @maxima(%a: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}, %i: tensor<f32> {dtensor.layout = #dtensor.layout<@mesh, []>})
    -> (tensor<18xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) {
  // CHECK: %[[TEN:.*]] = "stablehlo.reduce_window"
  // CHECK: }) : (tensor<6xf32>, tensor<f32>) -> tensor<10xf32>
  // CHECK: stablehlo.dynamic_slice %[[TEN]], %{{.*}}, sizes = [9]
  %0 = "stablehlo.reduce_window"(%a, %i) <{window_dimensions = array<i64: 3>, base_dilations = array<i64: 2>, padding = dense<[[2, 3]]> : tensor<1x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %m = stablehlo.maximum %x, %y : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) {dtensor.results = [#dtensor.layout<@mesh, [{"x"}]>]} : (tensor<8xf32>, tensor<f32>) -> tensor<18xf32>
  return %0 : tensor<18xf32>
}
