// RUN: dtensor-opt %s --split-input-file --dtensor-expand | filecheck %s

// The largest of each shard are given to a partner at twice the distance each time.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<3x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>})
    -> (tensor<3x2xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}, tensor<3x2xi32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  // CHECK: %[[MINE:.*]], %{{.*}} = chlo.top_k(%arg0, k = 2) : tensor<3x4xf32>
  // CHECK: %[[FIRST:.*]] = stablehlo.compare EQ
  // CHECK: %[[OTHER:.*]] = "dtensor.shard_permute"(%[[MINE]]) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: 1, 0, 3, 2>} : (tensor<3x2xf32>) -> tensor<3x2xf32>
  // CHECK: %[[BEFORE:.*]] = stablehlo.concatenate %[[MINE]], %[[OTHER]], dim = 1
  // CHECK: %[[BEHIND:.*]] = stablehlo.concatenate %[[OTHER]], %[[MINE]], dim = 1
  // CHECK: %[[BOTH:.*]] = stablehlo.select %[[FIRST]], %[[BEFORE]], %[[BEHIND]]
  // CHECK: chlo.top_k(%[[BOTH]], k = 2) : tensor<3x4xf32>
  // CHECK: sources = array<i64: 2, 3, 0, 1>
  // CHECK: chlo.top_k
  // CHECK-NOT: "dtensor.
  %0:2 = "chlo.top_k"(%a) {k = 2 : i64, dtensor.algorithm = "pairs", dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>, #dtensor.layout<@mesh, [{}, {}]>]} : (tensor<3x16xf32>) -> (tensor<3x2xf32>, tensor<3x2xi32>)
  return %0#0, %0#1 : tensor<3x2xf32>, tensor<3x2xi32>
}
