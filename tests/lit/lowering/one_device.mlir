// RUN: dtensor-opt %s -p dtensor-lower | filecheck %s

// On one device nothing communicates and nobody asks for a position.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=1]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%arg0: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<i32>) {
  // CHECK-NEXT: %[[ZERO:.*]] = stablehlo.constant dense<0> : tensor<i32>
  // CHECK-NEXT: return %arg0, %[[ZERO]]
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "dtensor.all_slice"(%0) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = "dtensor.all_reduce"(%1) {axes = #dtensor.axes<@mesh, ["x"]>, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = "dtensor.all_to_all"(%2) {axes = #dtensor.axes<@mesh, ["x"]>, split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = "dtensor.collective_permute"(%3) {from = #dtensor.axes<@mesh, ["x"]>, to = #dtensor.axes<@mesh, ["x"]>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %5 = "dtensor.axis_index"() {axes = #dtensor.axes<@mesh, ["x"]>} : () -> tensor<i32>
  return %4, %5 : tensor<2x3xf32>, tensor<i32>
}

// Nobody stands beside it: what it is sent is zero.

// CHECK-LABEL: func.func @alone
func.func @alone(%arg0: tensor<2x3xf32>) -> (tensor<5x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  // CHECK-DAG: %[[FRONT:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<2x3xf32>
  // CHECK-DAG: %[[BEHIND:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<1x3xf32>
  // CHECK: %[[AROUND:.*]] = stablehlo.concatenate %[[FRONT]], %arg0, %[[BEHIND]], dim = 0
  // CHECK: %[[NOTHING:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<2x3xf32>
  // CHECK: return %[[AROUND]], %arg0, %[[NOTHING]]
  %0 = "dtensor.halo_exchange"(%arg0) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64, low = 2 : i64, high = 1 : i64} : (tensor<2x3xf32>) -> tensor<5x3xf32>
  %1 = "dtensor.shard_permute"(%arg0) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: 0>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = "dtensor.shard_permute"(%arg0) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: -1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0, %1, %2 : tensor<5x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}
