// RUN: dtensor-opt %s --dtensor-expand | filecheck %s

// Of a kernel of 8 elements 7 are true, and the first result reads an element of the input behind
// them, which may be infinite: it is computed of an input that is zero there.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @of_a_kernel
func.func @of_a_kernel(%a: tensor<1x8x1xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}, %k: tensor<8x1x1xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}, {}]>})
    -> (tensor<1x3x1xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {}], partial = {sum: "x"}>}) {
  // CHECK: %[[IN:.*]] = "dtensor.halo_exchange"(%arg0)
  // CHECK: %[[END:.*]] = stablehlo.minimum
  // CHECK: %[[KEPT:.*]] = stablehlo.select %{{.*}}, %[[IN]], %{{.*}} : tensor<1x6x1xi1>, tensor<1x6x1xf32>
  // CHECK: %[[FIRST:.*]] = stablehlo.slice %[[KEPT]] [0:1, 0:4, 0:1]
  // CHECK: %[[ONE:.*]] = stablehlo.convolution(%[[FIRST]], {{.*}} -> tensor<1x1x1xf32>
  // CHECK: %[[OTHERS:.*]] = stablehlo.slice %[[IN]] [0:1, 1:6, 0:1]
  // CHECK: %[[TWO:.*]] = stablehlo.convolution(%[[OTHERS]], {{.*}} -> tensor<1x2x1xf32>
  // CHECK: stablehlo.concatenate %[[ONE]], %[[TWO]], dim = 1
  // CHECK-NOT: dtensor.steps
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.steps = array<i64: 7, 1>, dtensor.results = [#dtensor.layout<@mesh, [{}, {}, {}], partial = {sum: "x"}>]} : (tensor<1x8x1xf32>, tensor<8x1x1xf32>) -> tensor<1x3x1xf32>
  return %0 : tensor<1x3x1xf32>
}

// A dimension that is whole ends at a known place.
// CHECK-LABEL: func.func @whole
func.func @whole(%a: tensor<1x8x1xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {}]>}, %k: tensor<8x1x1xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {}]>})
    -> (tensor<1x3x1xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {}]>}) {
  // CHECK-NOT: axis_index
  // CHECK: stablehlo.constant dense<7> : tensor<i32>
  // CHECK: %[[KEPT:.*]] = stablehlo.select %{{.*}}, %arg0, %{{.*}} : tensor<1x8x1xi1>, tensor<1x8x1xf32>
  // CHECK: stablehlo.slice %[[KEPT]] [0:1, 0:7, 0:1]
  // CHECK: stablehlo.convolution({{.*}} -> tensor<1x1x1xf32>
  // CHECK: stablehlo.convolution({{.*}} -> tensor<1x2x1xf32>
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.steps = array<i64: 7, 1>, dtensor.results = [#dtensor.layout<@mesh, [{}, {}, {}]>]} : (tensor<1x8x1xf32>, tensor<8x1x1xf32>) -> tensor<1x3x1xf32>
  return %0 : tensor<1x3x1xf32>
}

// Of 8 elements of the input and of the kernel 3 are true, and the second shard has none of them: what
// it fetched is zero before it meets the zeros of its kernel.
// CHECK-LABEL: func.func @behind_the_end
func.func @behind_the_end(%a: tensor<1x8x1xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}, %k: tensor<8x1x1xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}, {}]>})
    -> (tensor<1x3x1xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {}], partial = {sum: "x"}>}) {
  // CHECK: %[[END:.*]] = stablehlo.constant dense<1> : tensor<i32>
  // CHECK: %[[HAS:.*]] = stablehlo.compare LT, %{{.*}}, %[[END]]
  // CHECK: %[[OWN:.*]] = stablehlo.select %[[HAS]], %{{.*}} : tensor<i1>, tensor<1x6x1xf32>
  // CHECK: stablehlo.convolution(%[[OWN]], %arg1)
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.ends = ["edge of 3 for 3"], dtensor.results = [#dtensor.layout<@mesh, [{}, {}, {}], partial = {sum: "x"}>]} : (tensor<1x8x1xf32>, tensor<8x1x1xf32>) -> tensor<1x3x1xf32>
  return %0 : tensor<1x3x1xf32>
}
