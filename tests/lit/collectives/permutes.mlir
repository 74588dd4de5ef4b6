// RUN: dtensor-opt %s -p dtensor-optimize-collectives | filecheck %s

// A permute of what a permute brought, and nothing else reads, is one permute.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=3, "z"=6]>} : () -> ()

// Device (j, k) gets what device (1 - j, 2 - k) has.

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<5x7xf32>) -> tensor<5x7xf32> {
  // CHECK: %[[GOT:.*]] = "dtensor.shard_permute"(%arg0) {axes = #dtensor.axes<@mesh, ["x", "y"]>, sources = array<i64: 5, 4, 3, 2, 1, 0>}
  // CHECK-NEXT: %[[ROWS:.*]] = stablehlo.reverse %[[GOT]], dims = [0]
  // CHECK-NEXT: %[[BOTH:.*]] = stablehlo.reverse %[[ROWS]], dims = [1]
  // CHECK-NEXT: return %[[BOTH]]
  %0 = "dtensor.shard_permute"(%a) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: 1, 0>} : (tensor<5x7xf32>) -> tensor<5x7xf32>
  %1 = stablehlo.reverse %0, dims = [0] : tensor<5x7xf32>
  %2 = "dtensor.shard_permute"(%1) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 2, 1, 0>} : (tensor<5x7xf32>) -> tensor<5x7xf32>
  %3 = stablehlo.reverse %2, dims = [1] : tensor<5x7xf32>
  return %3 : tensor<5x7xf32>
}

// What comes from nowhere is zero either way.

// CHECK-LABEL: func.func @shifted_off_the_end
func.func @shifted_off_the_end(%a: tensor<5xf32>) -> tensor<5xf32> {
  // CHECK: "dtensor.shard_permute"(%arg0) {axes = #dtensor.axes<@mesh, ["y", "x"]>, sources = array<i64: 3, -1, 5, -1, -1, -1>}
  %0 = "dtensor.shard_permute"(%a) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 1, 2, -1>} : (tensor<5xf32>) -> tensor<5xf32>
  %1 = "dtensor.shard_permute"(%0) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: 1, -1>} : (tensor<5xf32>) -> tensor<5xf32>
  return %1 : tensor<5xf32>
}

// Three along one axis: the third undoes what the others do.

// CHECK-LABEL: func.func @there_and_back
func.func @there_and_back(%a: tensor<5xf32>) -> tensor<5xf32> {
  // CHECK-NEXT: return %arg0
  %0 = "dtensor.shard_permute"(%a) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 1, 2, 0>} : (tensor<5xf32>) -> tensor<5xf32>
  %1 = "dtensor.shard_permute"(%0) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 1, 2, 0>} : (tensor<5xf32>) -> tensor<5xf32>
  %2 = "dtensor.shard_permute"(%1) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 1, 2, 0>} : (tensor<5xf32>) -> tensor<5xf32>
  return %2 : tensor<5xf32>
}

// What is computed in between, of that alone, is computed of what comes.

// CHECK-LABEL: func.func @computed_between
func.func @computed_between(%a: tensor<6xf32>) -> tensor<6xf32> {
  // CHECK: %[[GOT:.*]] = "dtensor.shard_permute"(%arg0) {axes = #dtensor.axes<@mesh, ["y", "x"]>
  // CHECK: %[[LOW:.*]] = stablehlo.slice %[[GOT]] [0:4]
  // CHECK: %[[HIGH:.*]] = stablehlo.slice %[[GOT]] [4:6]
  // CHECK: %[[ALL:.*]] = stablehlo.concatenate %[[HIGH]], %[[LOW]], dim = 0
  // CHECK: %[[SUM:.*]] = stablehlo.add %[[ALL]], %{{.*}}
  // CHECK-NOT: dtensor.shard_permute
  // CHECK: return %[[SUM]]
  %one = stablehlo.constant dense<1.0> : tensor<6xf32>
  %0 = "dtensor.shard_permute"(%a) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 1, 2, 0>} : (tensor<6xf32>) -> tensor<6xf32>
  %1 = stablehlo.slice %0 [0:4] : (tensor<6xf32>) -> tensor<4xf32>
  %2 = stablehlo.slice %0 [4:6] : (tensor<6xf32>) -> tensor<2xf32>
  %3 = stablehlo.concatenate %2, %1, dim = 0 : (tensor<2xf32>, tensor<4xf32>) -> tensor<6xf32>
  %4 = stablehlo.add %3, %one : tensor<6xf32>
  %5 = "dtensor.shard_permute"(%4) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: 1, 0>} : (tensor<6xf32>) -> tensor<6xf32>
  return %5 : tensor<6xf32>
}

// Not where zeros come at last, and would have become ones.

// CHECK-LABEL: func.func @zeros_at_last
func.func @zeros_at_last(%a: tensor<6xf32>) -> tensor<6xf32> {
  // CHECK: "dtensor.shard_permute"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>
  // CHECK: "dtensor.shard_permute"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["x"]>
  %one = stablehlo.constant dense<1.0> : tensor<6xf32>
  %0 = "dtensor.shard_permute"(%a) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 1, 2, 0>} : (tensor<6xf32>) -> tensor<6xf32>
  %1 = stablehlo.add %0, %one : tensor<6xf32>
  %2 = "dtensor.shard_permute"(%1) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: 1, -1>} : (tensor<6xf32>) -> tensor<6xf32>
  return %2 : tensor<6xf32>
}

// Nor what depends on the device.

// CHECK-LABEL: func.func @computed_of_the_device
func.func @computed_of_the_device(%a: tensor<i32>) -> tensor<i32> {
  // CHECK: "dtensor.shard_permute"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>
  // CHECK: "dtensor.shard_permute"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["x"]>
  %device = "dtensor.axis_index"() {axes = #dtensor.axes<@mesh, ["x"]>} : () -> tensor<i32>
  %0 = "dtensor.shard_permute"(%a) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 1, 2, 0>} : (tensor<i32>) -> tensor<i32>
  %1 = stablehlo.multiply %0, %device : tensor<i32>
  %2 = "dtensor.shard_permute"(%1) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: 1, 0>} : (tensor<i32>) -> tensor<i32>
  return %2 : tensor<i32>
}

// Nor what is read besides, or computed of other values too.

// CHECK-LABEL: func.func @read_besides
func.func @read_besides(%a: tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>) {
  // CHECK: %[[ONE:.*]] = "dtensor.shard_permute"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>
  // CHECK: %[[TWO:.*]] = "dtensor.shard_permute"(%[[ONE]]) {axes = #dtensor.axes<@mesh, ["x"]>
  // CHECK: return %[[ONE]], %[[TWO]]
  %0 = "dtensor.shard_permute"(%a) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 1, 2, 0>} : (tensor<5xf32>) -> tensor<5xf32>
  %1 = "dtensor.shard_permute"(%0) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: 1, 0>} : (tensor<5xf32>) -> tensor<5xf32>
  return %0, %1 : tensor<5xf32>, tensor<5xf32>
}

// CHECK-LABEL: func.func @added_to
func.func @added_to(%a: tensor<5xf32>, %b: tensor<5xf32>) -> tensor<5xf32> {
  // CHECK: "dtensor.shard_permute"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>
  // CHECK: stablehlo.add
  // CHECK: "dtensor.shard_permute"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["x"]>
  %0 = "dtensor.shard_permute"(%a) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 1, 2, 0>} : (tensor<5xf32>) -> tensor<5xf32>
  %1 = stablehlo.add %0, %b : tensor<5xf32>
  %2 = "dtensor.shard_permute"(%1) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: 1, 0>} : (tensor<5xf32>) -> tensor<5xf32>
  return %2 : tensor<5xf32>
}

// CHECK-LABEL: func.func @of_two
func.func @of_two(%a: tensor<5xf32>, %b: tensor<6xf32>) -> tensor<11xf32> {
  // CHECK: "dtensor.shard_permute"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>
  // CHECK: "dtensor.shard_permute"(%arg1) {axes = #dtensor.axes<@mesh, ["z"]>
  // CHECK: "dtensor.shard_permute"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["x"]>
  %0 = "dtensor.shard_permute"(%a) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 1, 2, 0>} : (tensor<5xf32>) -> tensor<5xf32>
  %1 = "dtensor.shard_permute"(%b) {axes = #dtensor.axes<@mesh, ["z"]>, sources = array<i64: 1, 2, 3, 4, 5, 0>} : (tensor<6xf32>) -> tensor<6xf32>
  %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<5xf32>, tensor<6xf32>) -> tensor<11xf32>
  %3 = "dtensor.shard_permute"(%2) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: 1, 0>} : (tensor<11xf32>) -> tensor<11xf32>
  return %3 : tensor<11xf32>
}

// Over axes that one has and the other has too: device (j, k) gets what (1 - j, k + 1) has.

// CHECK-LABEL: func.func @over_some_of_the_axes
func.func @over_some_of_the_axes(%a: tensor<5xf32>) -> tensor<5xf32> {
  // CHECK: "dtensor.shard_permute"(%arg0) {axes = #dtensor.axes<@mesh, ["y", "x"]>, sources = array<i64: 3, 2, 5, 4, 1, 0>}
  // CHECK-NOT: dtensor.shard_permute
  %0 = "dtensor.shard_permute"(%a) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 2, 1, 0>} : (tensor<5xf32>) -> tensor<5xf32>
  %1 = "dtensor.shard_permute"(%0) {axes = #dtensor.axes<@mesh, ["x", "y"]>, sources = array<i64: 4, 3, 5, 1, 0, 2>} : (tensor<5xf32>) -> tensor<5xf32>
  return %1 : tensor<5xf32>
}

// Not over parts of one axis.

// CHECK-LABEL: func.func @parts_of_an_axis
func.func @parts_of_an_axis(%a: tensor<5xf32>) -> tensor<5xf32> {
  // CHECK: "dtensor.shard_permute"(%arg0) {axes = #dtensor.axes<@mesh, ["z":(1)2]>
  // CHECK: "dtensor.shard_permute"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["z"]>
  %0 = "dtensor.shard_permute"(%a) {axes = #dtensor.axes<@mesh, ["z":(1)2]>, sources = array<i64: 1, 0>} : (tensor<5xf32>) -> tensor<5xf32>
  %1 = "dtensor.shard_permute"(%0) {axes = #dtensor.axes<@mesh, ["z"]>, sources = array<i64: 1, 2, 3, 4, 5, 0>} : (tensor<5xf32>) -> tensor<5xf32>
  return %1 : tensor<5xf32>
}
