// RUN: dtensor-opt %s | dtensor-opt | filecheck %s
// RUN: dtensor-opt %s -p dtensor-lower | filecheck %s --check-prefix LOWERED

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @main
// LOWERED-LABEL: func.func @main
func.func @main(%arg0: tensor<4x3xf32>) -> tensor<4x3xf32> {
  // CHECK: "dtensor.shard_permute"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, -1>} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  // LOWERED: "stablehlo.collective_permute"(%arg0)
  // LOWERED-SAME: dense<{{\[\[}}3, 0], [0, 1], [1, 2], [7, 4], [4, 5], [5, 6]]>
  %0 = "dtensor.shard_permute"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, -1>} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  // CHECK: "dtensor.shard_permute"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["x"]>, readers = array<i64: 1>, sources = array<i64: 1, 0>}
  // LOWERED: "stablehlo.collective_permute"
  // LOWERED-NOT: readers
  %1 = "dtensor.shard_permute"(%0) {axes = #dtensor.axes<@mesh, ["x"]>, readers = array<i64: 1>, sources = array<i64: 1, 0>} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  return %1 : tensor<4x3xf32>
}
