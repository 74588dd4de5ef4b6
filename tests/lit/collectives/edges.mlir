// RUN: dtensor-opt %s -p dtensor-optimize-collectives | filecheck %s

// What several messages send of one value to the same devices is sent in one.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// The last column of a tile, and of the tile with the row that came from above: that row's corner
// goes along, and is fetched first.

// CHECK-LABEL: func.func @corners
func.func @corners(%a: tensor<5x3xf32>) -> (tensor<5x1xf32>, tensor<5x1xf32>) {
  // CHECK: %[[ROW:.*]] = "dtensor.shard_permute"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["x"]>
  // CHECK-DAG: %[[EDGE:.*]] = stablehlo.slice %arg0 [0:5, 2:3]
  // CHECK-DAG: %[[CORNER:.*]] = stablehlo.slice %[[ROW]] [0:1, 2:3]
  // CHECK: %[[MESSAGE:.*]] = stablehlo.concatenate %[[CORNER]], %[[EDGE]], dim = 0
  // CHECK: %[[GOT:.*]] = "dtensor.shard_permute"(%[[MESSAGE]]) {axes = #dtensor.axes<@mesh, ["y"]>
  // CHECK-SAME: tensor<6x1xf32>
  // CHECK: %[[FIRST:.*]] = stablehlo.slice %[[GOT]] [1:6, 0:1]
  // CHECK: %[[REST:.*]] = stablehlo.slice %[[FIRST]] [0:4, 0:1]
  // CHECK: %[[SECOND:.*]] = stablehlo.concatenate %{{.*}}, %[[REST]], dim = 0
  // CHECK-NOT: dtensor.shard_permute
  // CHECK: return %[[FIRST]], %[[SECOND]]
  %edge = stablehlo.slice %a [0:5, 2:3] : (tensor<5x3xf32>) -> tensor<5x1xf32>
  %0 = "dtensor.shard_permute"(%edge) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<5x1xf32>) -> tensor<5x1xf32>
  %last = stablehlo.slice %a [4:5, 0:3] : (tensor<5x3xf32>) -> tensor<1x3xf32>
  %row = "dtensor.shard_permute"(%last) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: 1, 0>} : (tensor<1x3xf32>) -> tensor<1x3xf32>
  %others = stablehlo.slice %a [0:4, 0:3] : (tensor<5x3xf32>) -> tensor<4x3xf32>
  %moved = stablehlo.concatenate %row, %others, dim = 0 : (tensor<1x3xf32>, tensor<4x3xf32>) -> tensor<5x3xf32>
  %cut = stablehlo.slice %moved [0:5, 2:3] : (tensor<5x3xf32>) -> tensor<5x1xf32>
  %1 = "dtensor.shard_permute"(%cut) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<5x1xf32>) -> tensor<5x1xf32>
  return %0, %1 : tensor<5x1xf32>, tensor<5x1xf32>
}

// What is chosen alike on both sides is chosen of what came; an index along the axes is not alike.

// CHECK-LABEL: func.func @chosen
func.func @chosen(%a: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  // CHECK: %[[ALIKE:.*]] = stablehlo.compare EQ
  // CHECK: %[[GOT:.*]] = "dtensor.shard_permute"(%arg0)
  // CHECK: %[[CHOSEN:.*]] = stablehlo.select %[[ALIKE]], %[[ZERO:.*]], %[[GOT]]
  // CHECK: %[[MIXED:.*]] = stablehlo.select %{{.*}}, %[[ZERO]], %arg0
  // CHECK: %[[OTHER:.*]] = "dtensor.shard_permute"(%[[MIXED]])
  // CHECK: return %[[GOT]], %[[CHOSEN]], %[[OTHER]]
  %none = stablehlo.constant dense<0> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<2xf32>
  %x = "dtensor.axis_index"() {axes = #dtensor.axes<@mesh, ["x"]>} : () -> tensor<i32>
  %y = "dtensor.axis_index"() {axes = #dtensor.axes<@mesh, ["y"]>} : () -> tensor<i32>
  %alike = stablehlo.compare EQ, %x, %none : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %unlike = stablehlo.compare EQ, %y, %none : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %0 = "dtensor.shard_permute"(%a) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<2xf32>) -> tensor<2xf32>
  %chosen = stablehlo.select %alike, %zero, %a : tensor<i1>, tensor<2xf32>
  %1 = "dtensor.shard_permute"(%chosen) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<2xf32>) -> tensor<2xf32>
  %mixed = stablehlo.select %unlike, %zero, %a : tensor<i1>, tensor<2xf32>
  %2 = "dtensor.shard_permute"(%mixed) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<2xf32>) -> tensor<2xf32>
  return %0, %1, %2 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// Where nobody sends there are zeros, which are not what all devices have.

// CHECK-LABEL: func.func @ones_that_one_device_does_not_get
func.func @ones_that_one_device_does_not_get() -> tensor<2xf32> {
  // CHECK: %[[GOT:.*]] = "dtensor.shard_permute"
  // CHECK: return %[[GOT]]
  %ones = stablehlo.constant dense<1.0> : tensor<2xf32>
  %0 = "dtensor.shard_permute"(%ones) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: -1, 0, 1, 2>} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// A message that is made of what the first one brought is one of its own.

// CHECK-LABEL: func.func @twice
func.func @twice(%a: tensor<3xf32>) -> (tensor<3xf32>, tensor<4xf32>) {
  // CHECK-COUNT-2: dtensor.shard_permute
  %0 = "dtensor.shard_permute"(%a) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<3xf32>) -> tensor<3xf32>
  %edge = stablehlo.slice %0 [0:1] : (tensor<3xf32>) -> tensor<1xf32>
  %both = stablehlo.concatenate %edge, %a, dim = 0 : (tensor<1xf32>, tensor<3xf32>) -> tensor<4xf32>
  %1 = "dtensor.shard_permute"(%both) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<3xf32>, tensor<4xf32>
}
