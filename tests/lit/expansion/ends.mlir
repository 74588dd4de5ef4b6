// RUN: dtensor-opt %s --split-input-file --dtensor-expand | filecheck %s

// What stands around a tensor is made of what shards hold: where it goes round, shards do.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<3x8x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}, %k: tensor<3x4x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {}]>})
    -> (tensor<3x8x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}) {
  // CHECK: %[[LAST:.*]] = stablehlo.slice %arg0 [0:3, 1:2, 0:4] : (tensor<3x2x4xf32>) -> tensor<3x1x4xf32>
  // CHECK: %[[LOW:.*]] = "dtensor.shard_permute"(%[[LAST]]) {{{.*}}sources = array<i64: 3, 0, 1, 2>}
  // CHECK: %[[FIRST:.*]] = stablehlo.slice %arg0 [0:3, 0:1, 0:4]
  // CHECK: %[[HIGH:.*]] = "dtensor.shard_permute"(%[[FIRST]]) {{{.*}}sources = array<i64: 1, 2, 3, 0>}
  // CHECK: %[[ALL:.*]] = stablehlo.concatenate %[[LOW]], %arg0, %[[HIGH]], dim = 1
  // CHECK: stablehlo.convolution(%[[ALL]], %arg1) {{.*}}pad = {{\[\[}}0, 0]]
  // CHECK-NOT: dtensor.ends
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.ends = ["wrap"], dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}, {}]>]} : (tensor<3x8x4xf32>, tensor<3x4x5xf32>) -> tensor<3x8x5xf32>
  return %0 : tensor<3x8x5xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// An edge is repeated on the shard that holds it.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<3x8x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}, %k: tensor<3x4x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {}]>})
    -> (tensor<3x8x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}) {
  // CHECK: %[[EDGE:.*]] = stablehlo.slice %arg0 [0:3, 0:1, 0:4]
  // CHECK: %[[NEAR:.*]] = "dtensor.shard_permute"(%{{.*}}) {{{.*}}sources = array<i64: -1, 0, 1, 2>}
  // CHECK: %[[ZERO:.*]] = stablehlo.constant dense<0> : tensor<i32>
  // CHECK: %[[IS_FIRST:.*]] = stablehlo.compare EQ, %{{.*}}, %[[ZERO]]
  // CHECK: stablehlo.select %[[IS_FIRST]], %[[EDGE]], %[[NEAR]]
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.ends = ["edge"], dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}, {}]>]} : (tensor<3x8x4xf32>, tensor<3x4x5xf32>) -> tensor<3x8x5xf32>
  return %0 : tensor<3x8x5xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// Seven elements of eight: the last shard ends one earlier, and the first element stands there.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<3x8x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}, %k: tensor<3x4x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {}]>})
    -> (tensor<3x8x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}) {
  // CHECK: %[[WHOLE:.*]] = stablehlo.concatenate %[[LOW:.*]], %arg0, %{{.*}}, dim = 1 : {{.*}} -> tensor<3x4x4xf32>
  // CHECK: %[[ENDED:.*]] = stablehlo.concatenate %[[LOW]], %{{.*}}, %{{.*}}, %{{.*}}, dim = 1 : (tensor<3x1x4xf32>, tensor<3x1x4xf32>, tensor<3x1x4xf32>, tensor<3x1x4xf32>) -> tensor<3x4x4xf32>
  // CHECK: %[[ALL:.*]] = stablehlo.select %{{.*}}, %[[ENDED]], %[[WHOLE]]
  // CHECK: stablehlo.convolution(%[[ALL]], %arg1)
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.ends = ["wrap of 7 for 7"], dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}, {}]>]} : (tensor<3x8x4xf32>, tensor<3x4x5xf32>) -> tensor<3x8x5xf32>
  return %0 : tensor<3x8x5xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// A whole dimension is padded where it is.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<3x8x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {}]>}, %k: tensor<3x4x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {}]>})
    -> (tensor<3x8x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {}]>}) {
  // CHECK: %[[SECOND:.*]] = stablehlo.slice %arg0 [0:3, 1:2, 0:4]
  // CHECK: %[[LOW:.*]] = stablehlo.reverse %[[SECOND]], dims = [1]
  // CHECK: %[[ALL:.*]] = stablehlo.concatenate %[[LOW]], %arg0, %{{.*}}, dim = 1 : {{.*}} -> tensor<3x10x4xf32>
  // CHECK: stablehlo.convolution(%[[ALL]], %arg1) {{.*}}pad = {{\[\[}}0, 0]]
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.ends = ["reflect"], dtensor.results = [#dtensor.layout<@mesh, [{}, {}, {}]>]} : (tensor<3x8x4xf32>, tensor<3x4x5xf32>) -> tensor<3x8x5xf32>
  return %0 : tensor<3x8x5xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// What windows give at the ends is added on the shards that hold them.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<3x8x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}, %k: tensor<3x4x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {}]>})
    -> (tensor<3x8x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}) {
  // CHECK: %[[ALL:.*]] = "dtensor.halo_exchange"(%arg0)
  // CHECK: %[[MORE:.*]] = stablehlo.convolution(%[[ALL]], %arg1) {{.*}}pad = {{\[\[}}1, 1]]{{.*}} -> tensor<3x4x5xf32>
  // CHECK-NOT: dtensor.folds
  // CHECK: %[[KEPT:.*]] = stablehlo.slice %[[MORE]] [0:3, 1:3, 0:5]
  // CHECK: %[[FRONT:.*]] = stablehlo.slice %[[MORE]] [0:3, 0:1, 0:5]
  // CHECK: %[[TURNED:.*]] = stablehlo.reverse %[[FRONT]], dims = [1]
  // CHECK: %[[HERE:.*]] = stablehlo.select %{{.*}}, %[[TURNED]], %{{.*}}
  // CHECK: %[[WIDE:.*]] = stablehlo.pad %[[HERE]], %{{.*}}, low = [0, 0, 0], high = [0, 1, 0]
  // CHECK: stablehlo.add %[[KEPT]], %[[WIDE]]
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.folds = ["symmetric by 1 and 1"], dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}, {}]>]} : (tensor<3x8x4xf32>, tensor<3x4x5xf32>) -> tensor<3x8x5xf32>
  return %0 : tensor<3x8x5xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// Where a padding went round, they go round too.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<3x8x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}, %k: tensor<3x4x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {}]>})
    -> (tensor<3x8x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}) {
  // CHECK: %[[FRONT:.*]] = stablehlo.slice %{{.*}} [0:3, 0:1, 0:5]
  // CHECK: "dtensor.shard_permute"(%[[FRONT]]) {{{.*}}sources = array<i64: -1, -1, -1, 0>}
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.folds = ["wrap by 1 and 0"], dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}, {}]>]} : (tensor<3x8x4xf32>, tensor<3x4x5xf32>) -> tensor<3x8x5xf32>
  return %0 : tensor<3x8x5xf32>
}
