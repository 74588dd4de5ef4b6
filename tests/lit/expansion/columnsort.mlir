// RUN: dtensor-opt %s --split-input-file --dtensor-expand | filecheck %s

// A split dimension is sorted by two exchanges and a merge of halves.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// Equal integers are the same: nothing but they is sent.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<12x3xi32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
    -> (tensor<12x3xi32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // CHECK: %[[SORTED:.*]] = "stablehlo.sort"(%arg0)
  // CHECK: %[[PAIRS:.*]] = stablehlo.reshape %[[SORTED]] : (tensor<6x3xi32>) -> tensor<3x2x3xi32>
  // CHECK: %[[DEALT:.*]] = stablehlo.transpose %[[PAIRS]], dims = [1, 0, 2]
  // CHECK: %[[HANDS:.*]] = stablehlo.reshape %[[DEALT]] : (tensor<2x3x3xi32>) -> tensor<6x3xi32>
  // CHECK: %[[OUT:.*]] = stablehlo.reshape %[[HANDS]] : (tensor<6x3xi32>) -> tensor<1x2x3x3xi32>
  // CHECK: %[[COME:.*]] = "dtensor.all_to_all"(%[[OUT]]) {axes = #dtensor.axes<@mesh, ["x"]>, concat_dim = 0 : i64, split_dim = 1 : i64} : (tensor<1x2x3x3xi32>) -> tensor<2x1x3x3xi32>
  // CHECK: %[[COLUMN:.*]] = stablehlo.reshape %[[COME]] : (tensor<2x1x3x3xi32>) -> tensor<6x3xi32>
  // CHECK: %[[AGAIN:.*]] = "stablehlo.sort"(%[[COLUMN]])
  // CHECK: %[[BLOCKS:.*]] = stablehlo.reshape %[[AGAIN]] : (tensor<6x3xi32>) -> tensor<1x2x3x3xi32>
  // CHECK: "dtensor.all_to_all"
  // CHECK: %[[THIRD:.*]] = "stablehlo.sort"
  // CHECK-DAG: %[[LOWER:.*]] = stablehlo.slice %[[THIRD]] [0:3, 0:3]
  // CHECK-DAG: %[[UPPER:.*]] = stablehlo.slice %[[THIRD]] [3:6, 0:3]
  // CHECK: %[[CAME:.*]] = "dtensor.shard_permute"(%[[UPPER]]) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: -1, 0>}
  // CHECK: %[[BOTH:.*]] = stablehlo.concatenate %[[CAME]], %[[LOWER]], dim = 0
  // CHECK: %[[MERGED:.*]] = "stablehlo.sort"(%[[BOTH]])
  // CHECK: %[[BACK:.*]] = "dtensor.shard_permute"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: 1, -1>}
  // CHECK: stablehlo.select %{{.*}}, %[[LOWER]], %{{.*}} : tensor<i1>, tensor<3x3xi32>
  // CHECK: stablehlo.select %{{.*}}, %[[UPPER]], %[[BACK]] : tensor<i1>, tensor<3x3xi32>
  %0 = "stablehlo.sort"(%a) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<i32>, %q: tensor<i32>):
    %1 = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) {dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<12x3xi32>) -> tensor<12x3xi32>
  return %0 : tensor<12x3xi32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// Equal floats may differ, as zeros do: their places go with them and decide. Of an argsort they
// are one of the operands, in fewer bits.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>})
    -> (tensor<12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}, tensor<12xi32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) {
  // CHECK: %[[PLACE:.*]] = stablehlo.convert %{{.*}} : (tensor<6xi32>) -> tensor<6xui16>
  // CHECK: "stablehlo.sort"(%arg0, %[[PLACE]])
  // CHECK: ^bb0(%[[A:.*]]: tensor<f32>, %[[B:.*]]: tensor<f32>, %[[I:.*]]: tensor<ui16>, %[[J:.*]]: tensor<ui16>):
  // CHECK-DAG: %[[LESS:.*]] = stablehlo.compare LT, %[[A]], %[[B]]
  // CHECK-DAG: %[[MORE:.*]] = stablehlo.compare LT, %[[B]], %[[A]]
  // CHECK-DAG: %[[EARLIER:.*]] = stablehlo.compare LT, %[[I]], %[[J]]
  // CHECK: %[[NOT:.*]] = stablehlo.not %[[MORE]]
  // CHECK: %[[TIED:.*]] = stablehlo.and %[[NOT]], %[[EARLIER]]
  // CHECK: %[[BEFORE:.*]] = stablehlo.or %[[LESS]], %[[TIED]]
  // CHECK: stablehlo.return %[[BEFORE]]
  %0 = "stablehlo.sort"(%a) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %3 = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %3 : tensor<i1>
  }) {dtensor.results = [#dtensor.layout<@mesh, [{"x"}]>]} : (tensor<12xf32>) -> tensor<12xf32>
  %1 = stablehlo.iota dim = 0 {dtensor.results = [#dtensor.layout<@mesh, [{"x"}]>]} : tensor<12xi32>
  // CHECK: "stablehlo.sort"(%arg0, %[[COUNTED:.*]])
  // CHECK-NEXT: ^bb0(%{{.*}}: tensor<f32>, %{{.*}}: tensor<f32>, %{{.*}}: tensor<ui16>, %{{.*}}: tensor<ui16>):
  // CHECK: stablehlo.convert %{{.*}} : (tensor<6xui16>) -> tensor<6xi32>
  // CHECK-NOT: dtensor.places
  %2:2 = "stablehlo.sort"(%a, %1) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>, %r: tensor<i32>, %s: tensor<i32>):
    %3 = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %3 : tensor<i1>
  }) {dtensor.places = 1 : i64, dtensor.results = [#dtensor.layout<@mesh, [{"x"}]>, #dtensor.layout<@mesh, [{"x"}]>]} : (tensor<12xf32>, tensor<12xi32>) -> (tensor<12xf32>, tensor<12xi32>)
  return %0, %2#1 : tensor<12xf32>, tensor<12xi32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// In the order of JAX a float has a code, in which its place stands if it is a zero or NaN: 2 * 12
// codes of zeros begin at 2139095040. Nothing but they is sent.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>})
    -> (tensor<12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) {
  // CHECK: %[[BITS:.*]] = stablehlo.bitcast_convert %arg0 : (tensor<6xf32>) -> tensor<6xui32>
  // CHECK: %[[ABOVE:.*]] = stablehlo.constant dense<2139095063> : tensor<6xui32>
  // CHECK: %[[CODES:.*]] = stablehlo.select
  // CHECK: %{{.*}} = "stablehlo.sort"(%{{.*}}) <{dimension = 0 : i64, is_stable = true}>
  // CHECK-NEXT: ^bb0(%{{.*}}: tensor<ui32>, %{{.*}}: tensor<ui32>):
  // CHECK: "dtensor.all_to_all"(%{{.*}}) {{.*}} : (tensor<1x2x3xui32>) -> tensor<2x1x3xui32>
  // CHECK: stablehlo.bitcast_convert %{{.*}} : (tensor<6xui32>) -> tensor<6xf32>
  %0 = "stablehlo.sort"(%a) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %nan = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %1 = stablehlo.compare EQ, %p, %zero : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %2 = stablehlo.select %1, %zero, %p : tensor<i1>, tensor<f32>
    %3 = stablehlo.compare NE, %p, %p : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %4 = stablehlo.select %3, %nan, %2 : tensor<i1>, tensor<f32>
    %5 = stablehlo.compare EQ, %q, %zero : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %6 = stablehlo.select %5, %zero, %q : tensor<i1>, tensor<f32>
    %7 = stablehlo.compare NE, %q, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %8 = stablehlo.select %7, %nan, %6 : tensor<i1>, tensor<f32>
    %9 = stablehlo.compare LT, %4, %8, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %9 : tensor<i1>
  }) {dtensor.results = [#dtensor.layout<@mesh, [{"x"}]>]} : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// Shards of five are made six; what is behind the ninth element stands behind all others. The second
// shard begins one element before its long one does.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<10xi32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>})
    -> (tensor<10xi32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) {
  // CHECK: %[[CODE:.*]] = stablehlo.xor
  // CHECK: %[[END:.*]] = stablehlo.constant dense<9> : tensor<5xui32>
  // CHECK: %[[INSIDE:.*]] = stablehlo.compare LT, %{{.*}}, %[[END]]
  // CHECK: %[[LARGEST:.*]] = stablehlo.constant dense<4294967295> : tensor<5xui32>
  // CHECK: %[[CODES:.*]] = stablehlo.select %[[INSIDE]], %[[CODE]], %[[LARGEST]]
  // CHECK: %[[BEYOND:.*]] = stablehlo.constant dense<4294967295> : tensor<1xui32>
  // CHECK: %[[LONG:.*]] = stablehlo.concatenate %[[CODES]], %[[BEYOND]], dim = 0 : (tensor<5xui32>, tensor<1xui32>) -> tensor<6xui32>
  // CHECK: "stablehlo.sort"(%[[LONG]])
  // CHECK: ^bb0(%[[A:.*]]: tensor<ui32>, %[[B:.*]]: tensor<ui32>):
  // CHECK: %[[LESS:.*]] = stablehlo.compare LT, %[[A]], %[[B]]
  // CHECK: stablehlo.return %[[LESS]] : tensor<i1>
  // CHECK: %[[LAST:.*]] = stablehlo.slice %[[SORTED:.*]] [5:6] : (tensor<6xui32>) -> tensor<1xui32>
  // CHECK: %[[BEFORE:.*]] = "dtensor.shard_permute"(%[[LAST]]) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: -1, 0>}
  // CHECK: %[[BOTH:.*]] = stablehlo.concatenate %[[BEFORE]], %[[SORTED]], dim = 0
  // CHECK: %[[KEPT:.*]] = stablehlo.dynamic_slice %[[BOTH]], %{{.*}}, sizes = [5]
  // CHECK: stablehlo.xor %[[KEPT]]
  %0 = "stablehlo.sort"(%a) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<i32>, %q: tensor<i32>):
    %1 = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) {dtensor.size = 9 : i64, dtensor.results = [#dtensor.layout<@mesh, [{"x"}]>]} : (tensor<10xi32>) -> tensor<10xi32>
  return %0 : tensor<10xi32>
}
