// RUN: dtensor-opt %s --split-input-file --dtensor-expand | filecheck %s

// The algorithm that an op names is run; one that names none takes the first that applies.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<3x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}, %n: tensor<3x8xi32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}, %i: tensor<f32> {dtensor.layout = #dtensor.layout<@mesh, []>}, %j: tensor<i32> {dtensor.layout = #dtensor.layout<@mesh, []>})
    -> (tensor<3xi32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}) {
  // CHECK: %[[MINE:.*]]:3 = stablehlo.reduce(%arg0 init: %arg2), (%arg1 init: %arg3), (%{{.*}} init: %{{.*}}) across dimensions = [1] : (tensor<3x4xf32>, tensor<3x4xi32>, tensor<3x4xi1>, tensor<f32>, tensor<i32>, tensor<i1>) -> (tensor<3xf32>, tensor<3xi32>, tensor<3xi1>)
  // CHECK: %[[ROW:.*]] = stablehlo.reshape %[[MINE]]#0 : (tensor<3xf32>) -> tensor<1x1x3xf32>
  // CHECK: %[[ALL:.*]] = "dtensor.all_gather"(%[[ROW]]){{.*}} : (tensor<1x1x3xf32>) -> tensor<2x1x3xf32>
  // CHECK: %[[ROWS:.*]] = stablehlo.reshape %[[ALL]] : (tensor<2x1x3xf32>) -> tensor<2x3xf32>
  // CHECK: stablehlo.reduce(%[[ROWS]] init: %arg2), (%{{.*}} init: %arg3) across dimensions = [0] : (tensor<2x3xf32>, tensor<2x3xi32>, tensor<f32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xi32>)
  // CHECK-NOT: dtensor.algorithm
  %0:2 = "stablehlo.reduce"(%a, %n, %i, %j) <{dimensions = array<i64: 1>}> ({
  ^bb0(%x: tensor<f32>, %u: tensor<i32>, %y: tensor<f32>, %v: tensor<i32>):
    %1 = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %2 = stablehlo.select %1, %x, %y : tensor<i1>, tensor<f32>
    %3 = stablehlo.select %1, %u, %v : tensor<i1>, tensor<i32>
    stablehlo.return %2, %3 : tensor<f32>, tensor<i32>
  }) {dtensor.algorithm = "gather_totals", dtensor.results = [#dtensor.layout<@mesh, [{}]>, #dtensor.layout<@mesh, [{}]>]} : (tensor<3x8xf32>, tensor<3x8xi32>, tensor<f32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xi32>)
  return %0#1 : tensor<3xi32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// One element of a split dimension is its owner's.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %u: tensor<1x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}, %i: tensor<i32> {dtensor.layout = #dtensor.layout<@mesh, []>})
    -> (tensor<8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // CHECK: %[[OLD:.*]] = stablehlo.dynamic_slice %arg0, %[[S:.*]], %[[T:.*]], sizes = [1, 3] : (tensor<4x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
  // CHECK: %[[NEW:.*]] = stablehlo.select %{{.*}}, %arg1, %[[OLD]]
  // CHECK: stablehlo.dynamic_update_slice %arg0, %[[NEW]], %[[S]], %[[T]] : (tensor<4x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<4x3xf32>
  %0 = "stablehlo.dynamic_update_slice"(%a, %u, %i, %i) {dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<8x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<8x3xf32>
  return %0 : tensor<8x3xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// Two rows, which may lie across two shards: each writes back two of its own, some of them as before.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<16x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %u: tensor<2x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}, %i: tensor<i32> {dtensor.layout = #dtensor.layout<@mesh, []>})
    -> (tensor<16x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // CHECK: %[[LAST:.*]] = stablehlo.constant dense<6> : tensor<i32>
  // CHECK: %[[S:.*]] = stablehlo.clamp %{{.*}}, %{{.*}}, %[[LAST]]
  // CHECK: %[[ROWS:.*]] = "stablehlo.gather"(%arg1, %{{[0-9]+}})
  // CHECK: %[[OLD:.*]] = stablehlo.dynamic_slice %arg0, %[[S]], %[[T:.*]], sizes = [2, 3] : (tensor<8x3xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
  // CHECK: %[[NEW:.*]] = stablehlo.select %{{.*}}, %[[ROWS]], %[[OLD]]
  // CHECK: stablehlo.dynamic_update_slice %arg0, %[[NEW]], %[[S]], %[[T]] : (tensor<8x3xf32>, tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<8x3xf32>
  %0 = "stablehlo.dynamic_update_slice"(%a, %u, %i, %i) {dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<16x3xf32>, tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<16x3xf32>
  return %0 : tensor<16x3xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// A roll by 3 of shards of 2: two rows go round, from two places. What comes in is chosen by index.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %z: tensor<f32> {dtensor.layout = #dtensor.layout<@mesh, []>})
    -> (tensor<8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, tensor<8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // CHECK: %[[LAST:.*]] = stablehlo.slice %arg0 [1:2, 0:3]
  // CHECK: %[[LOW:.*]] = "dtensor.shard_permute"(%[[LAST]]) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: 2, 3, 0, 1>}
  // CHECK: %[[FIRST:.*]] = stablehlo.slice %arg0 [0:1, 0:3]
  // CHECK: %[[HIGH:.*]] = "dtensor.shard_permute"(%[[FIRST]]) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: 3, 0, 1, 2>}
  // CHECK: %[[ROLL:.*]] = stablehlo.concatenate %[[LOW]], %[[HIGH]], dim = 0
  %0 = "dtensor.splice"(%a) {dtensor.algorithm = "ring", dim = 0 : i64, sources = array<i64: 0, 0>, starts = array<i64: 5, 0>, counts = array<i64: 3, 5>, dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<8x3xf32>) -> tensor<8x3xf32>
  // CHECK: %[[NEXT:.*]] = "dtensor.shard_permute"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: 1, 2, 3, 0>}
  // CHECK: %[[MOVED:.*]] = stablehlo.concatenate %{{.*}}, %[[NEXT]], dim = 0
  // CHECK: %[[FILL:.*]] = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
  // CHECK: stablehlo.compare GE, %{{.*}} : (tensor<1xi32>, tensor<1xi32>) -> tensor<1xi1>
  // CHECK: %[[CHOSEN:.*]] = stablehlo.select %{{.*}} : tensor<1x3xi1>, tensor<1x3xf32>
  // CHECK: %[[KEPT:.*]] = stablehlo.slice %[[MOVED]] [0:1, 0:3]
  // CHECK: stablehlo.concatenate %[[KEPT]], %[[CHOSEN]], dim = 0
  %1 = "dtensor.splice"(%a, %z) {dim = 0 : i64, sources = array<i64: 0, 1>, starts = array<i64: 1, 0>, counts = array<i64: 7, 1>, dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<8x3xf32>, tensor<f32>) -> tensor<8x3xf32>
  return %0, %1 : tensor<8x3xf32>, tensor<8x3xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// Totals of the shards before each one, in two steps; its elements are scanned behind them.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
    -> (tensor<8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  %zero = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, []>]} dense<0.0> : tensor<f32>
  // CHECK: %[[TOTAL:.*]] = "stablehlo.reduce_window"(%arg0, %{{.*}}) <{padding = dense<0> : tensor<2x2xi64>, window_dimensions = array<i64: 2, 1>}>
  // CHECK: %[[ONE:.*]] = "dtensor.shard_permute"(%[[TOTAL]]) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: -1, 0, 1, 2>} : (tensor<1x3xf32>) -> tensor<1x3xf32>
  // CHECK: stablehlo.add %[[ONE]], %[[TOTAL]] : tensor<1x3xf32>
  // CHECK: stablehlo.select %{{.*}}, %{{.*}}, %[[TOTAL]] : tensor<i1>, tensor<1x3xf32>
  // CHECK: %[[TWO:.*]] = "dtensor.shard_permute"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: -1, -1, 0, 1>} : (tensor<1x3xf32>) -> tensor<1x3xf32>
  // CHECK: %[[BEFORE:.*]] = stablehlo.select %{{.*}}, %{{.*}}, %[[ONE]] : tensor<i1>, tensor<1x3xf32>
  // CHECK: %[[BEGUN:.*]] = stablehlo.select %{{.*}}, %[[BEFORE]], %{{.*}} : tensor<i1>, tensor<1x3xf32>
  // CHECK: %[[LONG:.*]] = stablehlo.concatenate %[[BEGUN]], %arg0, dim = 0 : (tensor<1x3xf32>, tensor<2x3xf32>) -> tensor<3x3xf32>
  // CHECK: %[[ALL:.*]] = "stablehlo.reduce_window"(%[[LONG]], %{{.*}}) <{padding = dense<{{\[\[}}2, 0], [0, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 3, 1>}>
  // CHECK: stablehlo.slice %[[ALL]] [1:3, 0:3]
  %0 = "stablehlo.reduce_window"(%a, %zero) <{padding = dense<[[7, 0], [0, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 8, 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {dtensor.algorithm = "scan", dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<8x3xf32>, tensor<f32>) -> tensor<8x3xf32>
  return %0 : tensor<8x3xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// Shards of a reversed dimension change places; single elements are their owner's.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<32x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
    -> (tensor<32x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, tensor<1x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  // CHECK: %[[OTHER:.*]] = "dtensor.shard_permute"(%arg0) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: 3, 2, 1, 0>} : (tensor<8x3xf32>) -> tensor<8x3xf32>
  // CHECK: stablehlo.reverse %[[OTHER]], dims = [0] : tensor<8x3xf32>
  %0 = stablehlo.reverse %a, dims = [0] {dtensor.algorithm = "mirror", dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : tensor<32x3xf32>
  // CHECK: %[[ROW:.*]] = "stablehlo.gather"(%arg0, %{{.*}})
  // CHECK: stablehlo.select %{{.*}}, %[[ROW]], %{{.*}} : tensor<1x3xi1>, tensor<1x3xf32>
  %1 = stablehlo.slice %a [31:32, 0:3] {dtensor.algorithm = "by_owner", dtensor.results = [#dtensor.layout<@mesh, [{}, {}], partial = {sum: "x"}>]} : (tensor<32x3xf32>) -> tensor<1x3xf32>
  // CHECK: "dtensor.all_reduce"
  %2 = "dtensor.relayout"(%1) {layout = #dtensor.layout<@mesh, [{}, {}]>} : (tensor<1x3xf32>) -> tensor<1x3xf32>
  return %0, %2 : tensor<32x3xf32>, tensor<1x3xf32>
}

// -----

// A slice that leaves most of a dimension is shifted: shards fetch what they lack of their neighbours.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<3x32xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}) -> (tensor<3x28xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}) {
  // The first shard reads elements 3 to 16, the second 17 to 30.
  // CHECK: %[[WIDE:.*]] = "dtensor.halo_exchange"(%arg0) {{{.*}}high = 1 : i64, low = 0 : i64} : (tensor<3x16xf32>) -> tensor<3x17xf32>
  // CHECK: %[[READ:.*]] = stablehlo.dynamic_slice %[[WIDE]], {{.*}}, sizes = [3, 14]
  // CHECK: stablehlo.slice %[[READ]] [0:3, 0:14]
  %0 = stablehlo.slice %a [0:3, 3:31] {dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}]>]} : (tensor<3x32xf32>) -> tensor<3x28xf32>
  return %0 : tensor<3x28xf32>
}

// -----

// Parts of 3 and 1 rows per shard become 4: in each round every shard gets a row of one other, and
// what stays on its shard moves inside it.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<6x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %b: tensor<2x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
    -> (tensor<8x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // CHECK: %[[BOTH:.*]] = stablehlo.concatenate %arg0, %arg1, dim = 0 : (tensor<3x5xf32>, tensor<1x5xf32>) -> tensor<4x5xf32>
  // CHECK: %[[GIVEN:.*]] = stablehlo.dynamic_slice %[[BOTH]], %{{.*}}, sizes = [1, 5]
  // CHECK: %[[GOT:.*]] = "dtensor.shard_permute"(%[[GIVEN]]) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: 1, 0>} : (tensor<1x5xf32>) -> tensor<1x5xf32>
  // CHECK: %[[SOME:.*]] = stablehlo.dynamic_update_slice %[[BOTH]], %[[GOT]],
  // CHECK: %[[MOVED:.*]] = stablehlo.dynamic_slice %[[BOTH]], {{.*}}, sizes = [2, 5]
  // CHECK: %[[OLD:.*]] = stablehlo.dynamic_slice %[[SOME]], {{.*}}, sizes = [2, 5]
  // CHECK: %[[KEPT:.*]] = stablehlo.select %{{.*}}, %[[MOVED]], %[[OLD]] : tensor<i1>, tensor<2x5xf32>
  // CHECK: %[[ALL:.*]] = stablehlo.dynamic_update_slice %[[SOME]], %[[KEPT]],
  // CHECK: return %[[ALL]]
  %0 = stablehlo.concatenate %a, %b, dim = 0 {dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<6x5xf32>, tensor<2x5xf32>) -> tensor<8x5xf32>
  return %0 : tensor<8x5xf32>
}

// -----

// The upper half of the first shard is the second shard's, which has nothing that the first lacks.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<8x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<4x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // CHECK: %[[LOWER:.*]] = stablehlo.slice %arg0 [0:2, 0:5] : (tensor<4x5xf32>) -> tensor<2x5xf32>
  // CHECK: %[[GIVEN:.*]] = stablehlo.dynamic_slice %arg0, {{.*}}, sizes = [2, 5]
  // CHECK: %[[GOT:.*]] = "dtensor.shard_permute"(%[[GIVEN]]) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: -1, 0>} : (tensor<2x5xf32>) -> tensor<2x5xf32>
  // CHECK: stablehlo.select %{{.*}}, %[[GOT]], %{{.*}} : tensor<i1>, tensor<2x5xf32>
  // CHECK: stablehlo.dynamic_update_slice %[[LOWER]],
  %0 = stablehlo.slice %a [0:4, 0:5] {dtensor.algorithm = "exchange", dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<8x5xf32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}

// -----

// A pad of more than an eighth: what shards lack comes in rounds, the padding is put in everywhere else.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// CHECK-LABEL: func.func @pad
func.func @pad(%a: tensor<12x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %f: tensor<f32> {dtensor.layout = #dtensor.layout<@mesh, []>})
    -> (tensor<16x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // CHECK: %[[LONG:.*]] = stablehlo.pad %arg0, %{{.*}}, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<3x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  // CHECK: %[[SENT:.*]] = "dtensor.shard_permute"(%{{.*}}) {{{.*}}sources = array<i64: 1, 2, 3, -1>} : (tensor<1x6xf32>) -> tensor<1x6xf32>
  // CHECK: %[[LAST:.*]] = stablehlo.dynamic_update_slice
  // CHECK: %[[INSIDE:.*]] = stablehlo.broadcast_in_dim %{{.*}}, dims = [0] : (tensor<4xi1>) -> tensor<4x6xi1>
  // CHECK: %[[END:.*]] = stablehlo.select %[[INSIDE]], %{{.*}}, %{{.*}} : tensor<4x6xi1>, tensor<4x6xf32>
  // CHECK: return %[[END]] : tensor<4x6xf32>
  %0 = stablehlo.pad %a, %f, low = [0, 0], high = [4, 0], interior = [0, 0] {dtensor.algorithm = "exchange", dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<12x6xf32>, tensor<f32>) -> tensor<16x6xf32>
  return %0 : tensor<16x6xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// A roll of the first 7 rows. What the first shard needs of the last one stands elsewhere in it than
// what others need of those beside them.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
    -> (tensor<8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // CHECK: %[[END:.*]] = stablehlo.slice %arg0 [1:2, 0:3]
  // CHECK: "dtensor.shard_permute"(%[[END]]) {axes = #dtensor.axes<@mesh, ["x"]>, readers = array<i64: 1, 2, 3>, sources = array<i64: 3, 0, 1, 2>}
  // CHECK: %[[OWN:.*]] = stablehlo.slice %arg0 [0:1, 0:3]
  // CHECK: %[[SEVENTH:.*]] = stablehlo.slice %arg0 [0:1, 0:3]
  // CHECK: "dtensor.shard_permute"(%[[SEVENTH]]) {axes = #dtensor.axes<@mesh, ["x"]>, readers = array<i64: 0>, sources = array<i64: 3, 0, 1, 2>}
  %0 = "dtensor.splice"(%a) {dim = 0 : i64, sources = array<i64: 0, 0>, starts = array<i64: 6, 0>, counts = array<i64: 1, 7>, dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<8x3xf32>) -> tensor<8x3xf32>
  return %0 : tensor<8x3xf32>
}
