// RUN: dtensor-opt %s --split-input-file --dtensor-expand | filecheck %s

// Keys of 8 bits are found in two rounds of 15 counts for each of 2 x 3 places; of counts of 32
// elements five share a word. Then come the elements that have the keys.
// The rounds are turns of a loop.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<3x32xi8> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}, %k: tensor<2xi32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>})
    -> (tensor<3x2xi8> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  // CHECK: %[[BITS:.*]] = stablehlo.bitcast_convert %arg0 : (tensor<3x16xi8>) -> tensor<3x16xui8>
  // CHECK: %[[KEYS:.*]] = stablehlo.xor %[[BITS]], %{{.*}} : tensor<3x16xui8>
  // CHECK: %[[PLACES:.*]] = stablehlo.clamp %{{.*}}, %arg1, %{{.*}} : (tensor<i32>, tensor<2xi32>, tensor<i32>) -> tensor<2xi32>
  // CHECK: stablehlo.while
  // CHECK: stablehlo.compare LT, %{{.*}} : (tensor<15x2x3x16xui8>, tensor<15x2x3x16xui8>) -> tensor<15x2x3x16xi1>
  // CHECK: "dtensor.all_reduce"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["x"]>, reduction = "sum"} : (tensor<18xui32>) -> tensor<18xui32>
  // CHECK-NOT: (tensor<18xui32>) -> tensor<18xui32>
  // CHECK: stablehlo.compare EQ
  // CHECK: "dtensor.all_gather"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64} : (tensor<1x2xui32>) -> tensor<2x2xui32>
  // CHECK: "dtensor.all_reduce"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["x"]>, reduction = "sum"} : (tensor<2x3xui8>) -> tensor<2x3xui8>
  // CHECK: %[[FOUND:.*]] = stablehlo.bitcast_convert
  %0 = "dtensor.ranked"(%a, %k) ({
  ^bb0(%p: tensor<i8>, %q: tensor<i8>):
    %1 = stablehlo.compare LT, %p, %q : (tensor<i8>, tensor<i8>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) {dim = 1 : i64, dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]} : (tensor<3x32xi8>, tensor<2xi32>) -> tensor<3x2xi8>
  return %0 : tensor<3x2xi8>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=3]>} : () -> ()

// Rows that are whole are sorted.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<3x32xi8> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %k: tensor<2xi32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>})
    -> (tensor<3x2xi8> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // CHECK: %[[SORTED:.*]] = "stablehlo.sort"(%arg0) <{dimension = 1 : i64, is_stable = true}>
  // CHECK: %[[PLACES:.*]] = stablehlo.clamp
  // CHECK: %[[VECTORS:.*]] = stablehlo.reshape %[[PLACES]]
  // CHECK: "stablehlo.gather"(%[[SORTED]], %[[VECTORS]])
  %0 = "dtensor.ranked"(%a, %k) ({
  ^bb0(%p: tensor<i8>, %q: tensor<i8>):
    %1 = stablehlo.compare LT, %p, %q : (tensor<i8>, tensor<i8>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) {dim = 1 : i64, dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<3x32xi8>, tensor<2xi32>) -> tensor<3x2xi8>
  return %0 : tensor<3x2xi8>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// Of places near an end of the order each shard gives those elements that may be there.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<3x32xi8> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>})
    -> (tensor<3x2xi8> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  %k = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, [{}]>]} dense<[28, 30]> : tensor<2xi32>
  // CHECK: %[[SORTED:.*]] = "stablehlo.sort"(%arg0) <{dimension = 1 : i64, is_stable = true}>
  // CHECK: %[[LAST:.*]] = stablehlo.slice %[[SORTED]] [0:3, 12:16] : (tensor<3x16xi8>) -> tensor<3x4xi8>
  // CHECK: %[[ALL:.*]] = "dtensor.all_gather"(%[[LAST]]) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 1 : i64} : (tensor<3x4xi8>) -> tensor<3x8xi8>
  // CHECK: %[[ORDER:.*]] = "stablehlo.sort"(%[[ALL]]) <{dimension = 1 : i64, is_stable = true}>
  // CHECK: %[[PLACES:.*]] = stablehlo.constant dense<[4, 6]>
  // CHECK: %{{.*}} = "stablehlo.gather"(%[[ORDER]], %{{.*}})
  %0 = "dtensor.ranked"(%a, %k) ({
  ^bb0(%p: tensor<i8>, %q: tensor<i8>):
    %1 = stablehlo.compare LT, %p, %q : (tensor<i8>, tensor<i8>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) {dim = 1 : i64, dtensor.algorithm = "ends", dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]} : (tensor<3x32xi8>, tensor<2xi32>) -> tensor<3x2xi8>
  return %0 : tensor<3x2xi8>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// Who reads where elements stand alone is sent that alone: the element's index in its shard, and
// where the shard begins.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<3x32xi8> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}, %k: tensor<2xi32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>})
    -> (tensor<3x2xi32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  // CHECK: "dtensor.all_gather"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64} : (tensor<1x2xui32>) -> tensor<2x2xui32>
  // CHECK: "dtensor.axis_index"
  // CHECK: %[[SHARD:.*]] = "dtensor.axis_index"() {axes = #dtensor.axes<@mesh, ["x"]>} : () -> tensor<i32>
  // CHECK: %[[OF:.*]] = stablehlo.multiply %[[SHARD]], %{{.*}} : tensor<i32>
  // CHECK: %[[SPREAD:.*]] = stablehlo.broadcast_in_dim %[[OF]]
  // CHECK: %[[WHERE:.*]] = stablehlo.add %{{.*}}, %[[SPREAD]] : tensor<2x3xi32>
  // CHECK: %[[OWN:.*]] = stablehlo.select %{{.*}}, %[[WHERE]]
  // CHECK: %[[FOUND:.*]] = "dtensor.all_reduce"(%[[OWN]]) {axes = #dtensor.axes<@mesh, ["x"]>, reduction = "sum"} : (tensor<2x3xi32>) -> tensor<2x3xi32>
  // CHECK-NOT: dtensor.all_reduce
  // CHECK: stablehlo.transpose %[[FOUND]], dims = [1, 0]
  %0:2 = "dtensor.ranked"(%a, %k) ({
  ^bb0(%p: tensor<i8>, %q: tensor<i8>):
    %1 = stablehlo.compare LT, %p, %q : (tensor<i8>, tensor<i8>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) {dim = 1 : i64, dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>, #dtensor.layout<@mesh, [{}, {}]>]} : (tensor<3x32xi8>, tensor<2xi32>) -> (tensor<3x2xi8>, tensor<3x2xi32>)
  return %0#1 : tensor<3x2xi32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// Rows that are whole are sorted with their places; near an end those of each shard come along.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<4x32xi8> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %b: tensor<3x32xi8> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>})
    -> (tensor<4x2xi32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, tensor<3x2xi32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  %k = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, [{}]>]} dense<[28, 30]> : tensor<2xi32>
  // CHECK: %[[PLACES:.*]] = stablehlo.iota dim = 1 : tensor<2x32xi32>
  // CHECK: %[[SORTED:.*]]:2 = "stablehlo.sort"(%arg0, %[[PLACES]])
  // CHECK: "stablehlo.gather"(%[[SORTED]]#1
  %0:2 = "dtensor.ranked"(%a, %k) ({
  ^bb0(%p: tensor<i8>, %q: tensor<i8>):
    %1 = stablehlo.compare LT, %p, %q : (tensor<i8>, tensor<i8>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) {dim = 1 : i64, dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>, #dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<4x32xi8>, tensor<2xi32>) -> (tensor<4x2xi8>, tensor<4x2xi32>)
  // CHECK: %[[OWN:.*]]:2 = "stablehlo.sort"(%arg1, %{{.*}})
  // CHECK: %[[LAST:.*]] = stablehlo.slice %[[OWN]]#1 [0:3, 12:16] : (tensor<3x16xi32>) -> tensor<3x4xi32>
  // CHECK: "dtensor.all_gather"(%[[LAST]]) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 1 : i64} : (tensor<3x4xi32>) -> tensor<3x8xi32>
  // CHECK: %[[ALL:.*]]:2 = "stablehlo.sort"
  // CHECK: "stablehlo.gather"(%[[ALL]]#1
  %2:2 = "dtensor.ranked"(%b, %k) ({
  ^bb0(%p: tensor<i8>, %q: tensor<i8>):
    %1 = stablehlo.compare LT, %p, %q : (tensor<i8>, tensor<i8>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) {dim = 1 : i64, dtensor.algorithm = "ends", dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>, #dtensor.layout<@mesh, [{}, {}]>]} : (tensor<3x32xi8>, tensor<2xi32>) -> (tensor<3x2xi8>, tensor<3x2xi32>)
  return %0#1, %2#1 : tensor<4x2xi32>, tensor<3x2xi32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// Of many rows those elements are dealt: each shard has all of half of the rows.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<6x32xi8> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>})
    -> (tensor<6x2xi8> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  %k = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, [{}]>]} dense<[28, 30]> : tensor<2xi32>
  // CHECK: %[[LAST:.*]] = stablehlo.slice %{{.*}} [0:6, 12:16] : (tensor<6x16xi8>) -> tensor<6x4xi8>
  // CHECK: %[[ALL:.*]] = "dtensor.all_to_all"(%[[LAST]]) {axes = #dtensor.axes<@mesh, ["x"]>, concat_dim = 1 : i64, split_dim = 0 : i64} : (tensor<6x4xi8>) -> tensor<3x8xi8>
  // CHECK: %[[ORDER:.*]] = "stablehlo.sort"(%[[ALL]])
  // CHECK: %[[FOUND:.*]] = "stablehlo.gather"(%[[ORDER]], %{{.*}})
  // CHECK: "dtensor.all_gather"(%[[FOUND]]) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64} : (tensor<3x2xi8>) -> tensor<6x2xi8>
  %0 = "dtensor.ranked"(%a, %k) ({
  ^bb0(%p: tensor<i8>, %q: tensor<i8>):
    %1 = stablehlo.compare LT, %p, %q : (tensor<i8>, tensor<i8>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) {dim = 1 : i64, dtensor.algorithm = "deal_ends", dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]} : (tensor<6x32xi8>, tensor<2xi32>) -> tensor<6x2xi8>
  return %0 : tensor<6x2xi8>
}
