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
  // CHECK: return
  %0:2 = "chlo.top_k"(%a) {k = 2 : i64, dtensor.algorithm = "pairs", dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>, #dtensor.layout<@mesh, [{}, {}]>]} : (tensor<3x16xf32>) -> (tensor<3x2xf32>, tensor<3x2xi32>)
  return %0#0, %0#1 : tensor<3x2xf32>, tensor<3x2xi32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// Of 8 rows each shard has two, with the largest of all shards; then all rows are put together.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<8x24xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>})
    -> (tensor<8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}, tensor<8x3xi32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  // CHECK: %[[MINE:.*]], %[[OWN:.*]] = chlo.top_k(%arg0, k = 3) : tensor<8x6xf32>
  // CHECK: %[[PLACES:.*]] = stablehlo.add %[[OWN]], %{{.*}}
  // CHECK: %[[ALL:.*]] = "dtensor.all_to_all"(%[[MINE]]) {axes = #dtensor.axes<@mesh, ["x"]>, concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x3xf32>) -> tensor<2x12xf32>
  // CHECK: "dtensor.all_to_all"(%[[PLACES]]) {axes = #dtensor.axes<@mesh, ["x"]>, concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<8x3xi32>) -> tensor<2x12xi32>
  // CHECK: %[[BEST:.*]], %{{.*}} = chlo.top_k(%[[ALL]], k = 3) : tensor<2x12xf32>
  // CHECK: "dtensor.all_gather"(%[[BEST]]) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64} : (tensor<2x3xf32>) -> tensor<8x3xf32>
  %0:2 = "chlo.top_k"(%a) {k = 3 : i64, dtensor.algorithm = "deal_candidates", dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>, #dtensor.layout<@mesh, [{}, {}]>]} : (tensor<8x24xf32>) -> (tensor<8x3xf32>, tensor<8x3xi32>)
  return %0#0, %0#1 : tensor<8x3xf32>, tensor<8x3xi32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// The three rows that a shard of x has are four meanwhile.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<6x24xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}]>})
    -> (tensor<6x2xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, tensor<6x2xi32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // CHECK: %[[MORE:.*]] = stablehlo.pad %{{.*}}, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<3x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  // CHECK: "dtensor.all_to_all"(%[[MORE]]) {axes = #dtensor.axes<@mesh, ["y"]>, concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<4x2xf32>) -> tensor<1x8xf32>
  // CHECK: %[[ROWS:.*]] = "dtensor.all_gather"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<1x2xf32>) -> tensor<4x2xf32>
  // CHECK: stablehlo.slice %[[ROWS]] [0:3, 0:2]
  %0:2 = "chlo.top_k"(%a) {k = 2 : i64, dtensor.algorithm = "deal_candidates", dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>, #dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<6x24xf32>) -> (tensor<6x2xf32>, tensor<6x2xi32>)
  return %0#0, %0#1 : tensor<6x2xf32>, tensor<6x2xi32>
}
