// RUN: dtensor-opt %s --dtensor-expand | filecheck %s

// argmax, as JAX writes it: the largest key of all shards, then the first place that has it.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<3x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}, %n: tensor<3x8xi32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}, %i: tensor<f32> {dtensor.layout = #dtensor.layout<@mesh, []>}, %j: tensor<i32> {dtensor.layout = #dtensor.layout<@mesh, []>})
    -> (tensor<3xi32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}) {
  // CHECK: %[[MINE:.*]]:2 = stablehlo.reduce(%arg0 init: %arg2), (%arg1 init: %arg3) across dimensions = [1]
  // CHECK: stablehlo.bitcast_convert %{{.*}} : (tensor<3xf32>) -> tensor<3xui32>
  // CHECK: %[[BEST:.*]] = "dtensor.all_reduce"(%[[KEY:.*]]) {axes = #dtensor.axes<@mesh, ["x"]>, reduction = "max"} : (tensor<3xui32>) -> tensor<3xui32>
  // CHECK: %[[IS_BEST:.*]] = stablehlo.compare EQ, %[[KEY]], %[[BEST]]
  // CHECK: %[[PLACE:.*]] = stablehlo.select %[[IS_BEST]], %[[MINE]]#1, %{{.*}} : tensor<3xi1>, tensor<3xi32>
  // CHECK: %[[FIRST:.*]] = "dtensor.all_reduce"(%[[PLACE]]) {axes = #dtensor.axes<@mesh, ["x"]>, reduction = "min"} : (tensor<3xi32>) -> tensor<3xi32>
  // CHECK: return %[[FIRST]]
  %0:2 = "stablehlo.reduce"(%a, %n, %i, %j) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %u: tensor<i32>, %y: tensor<f32>, %v: tensor<i32>):
    %1 = stablehlo.compare GT, %x, %y, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %2 = stablehlo.compare NE, %x, %x, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %3 = stablehlo.or %1, %2 : tensor<i1>
    %4 = stablehlo.compare EQ, %x, %y, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %5 = stablehlo.compare LT, %u, %v, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %6 = stablehlo.and %4, %5 : tensor<i1>
    %7 = stablehlo.or %3, %6 : tensor<i1>
    %8 = stablehlo.select %3, %x, %y : tensor<i1>, tensor<f32>
    %9 = stablehlo.select %7, %u, %v : tensor<i1>, tensor<i32>
    stablehlo.return %8, %9 : tensor<f32>, tensor<i32>
  }) {dtensor.algorithm = "extremes", dtensor.results = [#dtensor.layout<@mesh, [{}]>, #dtensor.layout<@mesh, [{}]>]} : (tensor<3x8xf32>, tensor<3x8xi32>, tensor<f32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xi32>)
  return %0#1 : tensor<3xi32>
}
