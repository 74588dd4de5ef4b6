// RUN: dtensor-opt %s --split-input-file --dtensor-expand | filecheck %s

// A shard combines its elements by pairs; the last of three levels says what it tells the others.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=3]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<15x2xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
    -> (tensor<15x2xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // CHECK-DAG: %[[EVEN:.*]] = stablehlo.slice %arg0 [0:3:2, 0:2] : (tensor<5x2xf32>) -> tensor<2x2xf32>
  // CHECK-DAG: %[[ODD:.*]] = stablehlo.slice %arg0 [1:4:2, 0:2] : (tensor<5x2xf32>) -> tensor<2x2xf32>
  // CHECK: %[[PAIRS:.*]] = stablehlo.maximum %[[EVEN]], %[[ODD]]
  // CHECK: %[[FOUR:.*]] = stablehlo.maximum %{{.*}}, %{{.*}} : tensor<1x2xf32>
  // CHECK: %[[FIFTH:.*]] = stablehlo.slice %arg0 [4:5, 0:2]
  // CHECK: %[[TOTAL:.*]] = stablehlo.maximum %[[FOUR]], %[[FIFTH]]
  // CHECK: %[[COME:.*]] = "dtensor.shard_permute"(%[[TOTAL]]) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: -1, 0, 1>}
  // CHECK: stablehlo.maximum %[[COME]], %[[TOTAL]]
  // CHECK: "dtensor.shard_permute"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: -1, -1, 0>}
  // CHECK-NOT: dtensor.shard_permute
  // CHECK: stablehlo.pad %{{.*}}, low = [0, 0], high = [1, 0], interior = [1, 0] : (tensor<1x2xf32>, tensor<f32>) -> tensor<2x2xf32>
  // CHECK: stablehlo.pad %{{.*}}, low = [1, 0], high = [0, 0], interior = [1, 0] : (tensor<1x2xf32>, tensor<f32>) -> tensor<2x2xf32>
  // CHECK: stablehlo.pad %{{.*}}, low = [0, 0], high = [0, 0], interior = [1, 0] : (tensor<3x2xf32>, tensor<f32>) -> tensor<5x2xf32>
  // CHECK: stablehlo.pad %{{.*}}, low = [1, 0], high = [1, 0], interior = [1, 0] : (tensor<2x2xf32>, tensor<f32>) -> tensor<5x2xf32>
  %0 = "dtensor.scan"(%a) ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %1 = stablehlo.maximum %p, %q : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {dim = 0 : i64, reverse = 0 : i64, dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<15x2xf32>) -> tensor<15x2xf32>
  return %0 : tensor<15x2xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// Rows that are whole are scanned each by itself, here from the last element on. Few are combined at
// doubled distances.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<3x2xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>})
    -> (tensor<3x2xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}) {
  // CHECK: stablehlo.reverse %arg0, dims = [0] : tensor<3x1xf32>
  // CHECK-NOT: dtensor.shard_permute
  // CHECK: %[[ONE:.*]] = stablehlo.add %{{.*}}, %{{.*}} : tensor<2x1xf32>
  // CHECK: %[[PAIRS:.*]] = stablehlo.concatenate %{{.*}}, %[[ONE]], dim = 0
  // CHECK: %[[FIRST:.*]] = stablehlo.slice %[[PAIRS]] [0:1, 0:1]
  // CHECK: %[[LAST:.*]] = stablehlo.slice %[[PAIRS]] [2:3, 0:1]
  // CHECK: %[[TWO:.*]] = stablehlo.add %[[FIRST]], %[[LAST]] : tensor<1x1xf32>
  // CHECK: %[[SCANNED:.*]] = stablehlo.concatenate %{{.*}}, %[[TWO]], dim = 0
  // CHECK: stablehlo.reverse %[[SCANNED]], dims = [0] : tensor<3x1xf32>
  %0 = "dtensor.scan"(%a) ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %1 = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {dim = 0 : i64, reverse = 1 : i64, dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}]>]} : (tensor<3x2xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}
