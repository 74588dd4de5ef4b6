// RUN: dtensor-opt %s --split-input-file --dtensor-expand | filecheck %s

// The first steps read the first element of each shard, on every device; the others are the owner's.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%t: tensor<32xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}, %q: tensor<3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>})
    -> (tensor<3xui32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}) {
  // CHECK: %[[MINE:.*]] = "stablehlo.gather"(%arg0, %{{.*}}) {{.*}} -> tensor<1xf32>
  // CHECK: %[[FIRST:.*]] = "dtensor.all_gather"(%[[MINE]]) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64} : (tensor<1xf32>) -> tensor<4xf32>
  // CHECK: %[[TRIPS:.*]] = stablehlo.constant dense<2> : tensor<i32>
  // CHECK: "stablehlo.gather"(%[[FIRST]], %{{.*}}) {{.*}} : (tensor<4xf32>, tensor<3x1xui32>) -> tensor<3xf32>
  // CHECK: stablehlo.compare LE, %arg1, %{{.*}} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
  // CHECK: %[[LEAF:.*]] = stablehlo.subtract %{{.*}}#1, %{{.*}} : tensor<3xui32>
  // CHECK: %[[OWNERS:.*]] = stablehlo.constant dense<[0, 1, 2, 3]> : tensor<4xui32>
  // CHECK: %[[OWNER:.*]] = "stablehlo.gather"(%[[OWNERS]]
  // CHECK: stablehlo.constant dense<4> : tensor<i32>
  // CHECK: "stablehlo.gather"(%arg0, %{{.*}}) {{.*}} : (tensor<8xf32>, tensor<3x1xui32>) -> tensor<3xf32>
  // CHECK: %[[FOUND:.*]] = stablehlo.add %{{.*}}#2, %{{.*}} : tensor<3xui32>
  // CHECK: %[[IS_MINE:.*]] = stablehlo.compare EQ, %[[OWNER]], %{{.*}} : (tensor<3xui32>, tensor<3xui32>) -> tensor<3xi1>
  // CHECK: stablehlo.select %[[IS_MINE]], %[[FOUND]], %{{.*}} : tensor<3xi1>, tensor<3xui32>
  %0 = "dtensor.search"(%t, %q) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.compare LE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) {count = 32 : i64, dtensor.results = [#dtensor.layout<@mesh, [{}], partial = {sum: "x"}>]} : (tensor<32xf32>, tensor<3xf32>) -> tensor<3xui32>
  %2 = "dtensor.relayout"(%0) {layout = #dtensor.layout<@mesh, [{}]>} : (tensor<3xui32>) -> tensor<3xui32>
  return %2 : tensor<3xui32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%t: tensor<32xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}, %q: tensor<4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>})
    -> (tensor<4xui32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) {
  // A whole table is searched in one loop.
  // CHECK-NOT: all_gather
  // CHECK: stablehlo.while
  // CHECK: stablehlo.constant dense<6> : tensor<i32>
  // CHECK-NOT: stablehlo.while
  %0 = "dtensor.search"(%t, %q) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.compare LE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) {count = 32 : i64, dtensor.results = [#dtensor.layout<@mesh, [{"x"}]>]} : (tensor<32xf32>, tensor<4xf32>) -> tensor<4xui32>
  return %0 : tensor<4xui32>
}
