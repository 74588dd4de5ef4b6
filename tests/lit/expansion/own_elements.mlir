// RUN: dtensor-opt %s --split-input-file --dtensor-expand | filecheck %s

// A shard computes what its own elements add to results, and sends what others have of these.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// A kernel of numbers is finite.
// CHECK-LABEL: func.func @of_results
func.func @of_results(%a: tensor<3x16x7xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>})
    -> (tensor<3x16x2xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}) {
  %k = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, [{}, {}, {}]>]} dense<2.0> : tensor<4x7x2xf32>
  // CHECK: %[[ALL:.*]] = stablehlo.convolution(%arg0, {{.*}}pad = {{\[\[}}3, 3]]{{.*}} -> tensor<3x11x2xf32>
  // CHECK: %[[OWN:.*]] = stablehlo.slice %[[ALL]] [0:3, 2:10, 0:2]
  // CHECK: %[[FRONT:.*]] = stablehlo.slice %[[ALL]] [0:3, 0:2, 0:2]
  // CHECK: %[[FROM:.*]] = "dtensor.shard_permute"(%[[FRONT]]) {{.*}}sources = array<i64: 1, -1>
  // CHECK: %[[LAST:.*]] = stablehlo.slice %[[OWN]] [0:3, 6:8, 0:2]
  // CHECK: stablehlo.add %[[LAST]], %[[FROM]]
  // CHECK: %[[BEHIND:.*]] = stablehlo.slice %[[ALL]] [0:3, 10:11, 0:2]
  // CHECK: %[[TO:.*]] = "dtensor.shard_permute"(%[[BEHIND]]) {{.*}}sources = array<i64: -1, 0>
  // CHECK: stablehlo.add %{{.*}}, %[[TO]] : tensor<3x1x2xf32>
  // CHECK-NOT: stablehlo.if
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 2]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.algorithm = "own_elements", dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}, {}]>]} : (tensor<3x16x7xf32>, tensor<4x7x2xf32>) -> tensor<3x16x2xf32>
  return %0 : tensor<3x16x2xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// Parts of a sum of f16 may be too large for it. A kernel that is given may be infinite: then the
// results at the ends are computed once more, of a kernel with zeros where others have elements.
// CHECK-LABEL: func.func @of_a_kernel_that_may_be_infinite
func.func @of_a_kernel_that_may_be_infinite(%a: tensor<3x16x7xf16> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}, %k: tensor<3x7x2xf16> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {}]>})
    -> (tensor<3x16x2xf16> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}) {
  // CHECK: %[[ALL:.*]] = stablehlo.convolution(%arg0, %arg1) {{.*}} -> tensor<3x10x2xf32>
  // CHECK: %[[FINITE:.*]] = stablehlo.is_finite %arg1
  // CHECK: %[[CASES:.*]] = stablehlo.constant dense<5> : tensor<i32>
  // CHECK: %[[ROUNDS:.*]] = stablehlo.select %{{.*}}, %{{.*}}, %[[CASES]]
  // CHECK: %[[WHOLE:.*]] = "stablehlo.if"(%{{.*}}) ({
  // CHECK: stablehlo.return %[[ALL]]
  // CHECK: stablehlo.while{{.*}}dtensor.trips = 0
  // CHECK: stablehlo.compare LT, %{{.*}}, %[[ROUNDS]]
  // CHECK: %[[KEPT:.*]] = stablehlo.select %{{.*}}, %arg1, %{{.*}} : tensor<3x7x2xi1>, tensor<3x7x2xf16>
  // CHECK: %[[IN:.*]] = stablehlo.pad %arg0, {{.*}}, low = [0, 2, 0], high = [0, 2, 0], interior = [0, 0, 0]
  // CHECK: %[[SOME:.*]] = stablehlo.convolution(%[[IN]], %[[KEPT]]) {{.*}} -> tensor<3x10x2xf32>
  // CHECK: stablehlo.select %{{.*}}, %[[SOME]], %{{.*}} : tensor<3x10x2xi1>, tensor<3x10x2xf32>
  // CHECK: "dtensor.shard_permute"(%{{.*}}) {{.*}} : (tensor<3x1x2xf32>)
  // CHECK: stablehlo.convert %{{.*}} : (tensor<3x8x2xf32>) -> tensor<3x8x2xf16>
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.algorithm = "own_elements", dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}, {}]>]} : (tensor<3x16x7xf16>, tensor<3x7x2xf16>) -> tensor<3x16x2xf16>
  return %0 : tensor<3x16x2xf16>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// The gradient of a kernel: windows walk over a kernel as long as the input, of which shards fetch
// what their elements meet.
// CHECK-LABEL: func.func @of_a_kernel
func.func @of_a_kernel(%a: tensor<5x16x3xi32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}, %k: tensor<16x3x2xi32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}, {}]>})
    -> (tensor<5x4x2xi32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {}]>}) {
  // CHECK: %[[WIDE:.*]] = "dtensor.halo_exchange"(%arg1) {{.*}}high = 1 : i64, low = 2 : i64} : (tensor<8x3x2xi32>) -> tensor<11x3x2xi32>
  // CHECK: stablehlo.convolution(%arg0, %[[WIDE]]) {{.*}}pad = {{\[\[}}3, 3]]{{.*}} -> tensor<5x4x2xi32>
  // CHECK-NOT: stablehlo.if
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 2]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.algorithm = "own_elements", dtensor.results = [#dtensor.layout<@mesh, [{}, {}, {}], partial = {sum: "x"}>]} : (tensor<5x16x3xi32>, tensor<16x3x2xi32>) -> tensor<5x4x2xi32>
  // CHECK: "dtensor.all_reduce"
  %1 = "dtensor.relayout"(%0) {layout = #dtensor.layout<@mesh, [{}, {}, {}]>} : (tensor<5x4x2xi32>) -> tensor<5x4x2xi32>
  return %1 : tensor<5x4x2xi32>
}
