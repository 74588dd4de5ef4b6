// RUN: dtensor-opt %s --split-input-file -p dtensor-optimize-collectives | filecheck %s

// What is cut out of a value twice is sent once, and another part of it by itself.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<3x2xf32>) -> (tensor<3x1xf32>, tensor<3x1xf32>, tensor<3x1xf32>) {
  // CHECK: %[[SENT:.*]] = "dtensor.shard_permute"
  %0 = stablehlo.slice %a [0:3, 1:2] : (tensor<3x2xf32>) -> tensor<3x1xf32>
  %1 = "dtensor.shard_permute"(%0) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %2 = stablehlo.slice %a [0:3, 1:2] : (tensor<3x2xf32>) -> tensor<3x1xf32>
  %3 = "dtensor.shard_permute"(%2) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<3x1xf32>) -> tensor<3x1xf32>
  // CHECK: %[[OTHER:.*]] = "dtensor.shard_permute"
  %4 = stablehlo.slice %a [0:3, 0:1] : (tensor<3x2xf32>) -> tensor<3x1xf32>
  %5 = "dtensor.shard_permute"(%4) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<3x1xf32>) -> tensor<3x1xf32>
  // CHECK: return %[[SENT]], %[[SENT]], %[[OTHER]]
  return %1, %3, %5 : tensor<3x1xf32>, tensor<3x1xf32>, tensor<3x1xf32>
}
