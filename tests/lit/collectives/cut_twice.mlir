// RUN: dtensor-opt %s --split-input-file -p dtensor-optimize-collectives | filecheck %s

// What is cut out of a value twice is sent once, and another part of it along with it.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<3x2xf32>) -> (tensor<3x1xf32>, tensor<3x1xf32>, tensor<3x1xf32>) {
  // CHECK: %[[ALL:.*]] = "dtensor.shard_permute"(%arg0)
  // CHECK: %[[SENT:.*]] = stablehlo.slice %[[ALL]] [0:3, 1:2]
  %0 = stablehlo.slice %a [0:3, 1:2] : (tensor<3x2xf32>) -> tensor<3x1xf32>
  %1 = "dtensor.shard_permute"(%0) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %2 = stablehlo.slice %a [0:3, 1:2] : (tensor<3x2xf32>) -> tensor<3x1xf32>
  %3 = "dtensor.shard_permute"(%2) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<3x1xf32>) -> tensor<3x1xf32>
  // CHECK: %[[OTHER:.*]] = stablehlo.slice %[[ALL]] [0:3, 0:1]
  %4 = stablehlo.slice %a [0:3, 0:1] : (tensor<3x2xf32>) -> tensor<3x1xf32>
  %5 = "dtensor.shard_permute"(%4) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<3x1xf32>) -> tensor<3x1xf32>
  // CHECK: return %[[SENT]], %[[SENT]], %[[OTHER]]
  return %1, %3, %5 : tensor<3x1xf32>, tensor<3x1xf32>, tensor<3x1xf32>
}

// -----

// Two results of one operation are two values.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<3x8xf32>, %b: tensor<3x8xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>) {
  // CHECK: %[[BOTH:.*]]:2 = stablehlo.optimization_barrier
  // CHECK: %[[FIRST:.*]] = "dtensor.all_slice"(%[[BOTH]]#0)
  // CHECK: %[[SECOND:.*]] = "dtensor.all_slice"(%[[BOTH]]#1)
  %0:2 = stablehlo.optimization_barrier %a, %b : tensor<3x8xf32>, tensor<3x8xf32>
  %1 = "dtensor.all_slice"(%0#0) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 1 : i64} : (tensor<3x8xf32>) -> tensor<3x2xf32>
  %2 = "dtensor.all_slice"(%0#1) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 1 : i64} : (tensor<3x8xf32>) -> tensor<3x2xf32>
  %3 = "dtensor.all_slice"(%0#0) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 1 : i64} : (tensor<3x8xf32>) -> tensor<3x2xf32>
  // CHECK: return %[[FIRST]], %[[SECOND]], %[[FIRST]]
  return %1, %2, %3 : tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>
}
