// RUN: dtensor-opt %s --split-input-file --verify-diagnostics

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<4x3xf32>) {
  // expected-error @below {{2 sources for 4 devices; name one for each}}
  %0 = "dtensor.shard_permute"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 1, 0>} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<4x3xf32>) {
  // expected-error @below {{sources are [2, 0]; give devices from 0 to 1, or -1 for zeros}}
  %0 = "dtensor.shard_permute"(%arg0) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: 2, 0>} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  // expected-error @below {{sources are [1, 1]; each device can send to one other only}}
  %1 = "dtensor.shard_permute"(%arg0) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: 1, 1>} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  // expected-error @below {{attribute 'sources' must be integers such as array<i64: 0, 1>, found other elements}}
  %2 = "dtensor.shard_permute"(%arg0) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<ui8: 1, 0>} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  // expected-error @below {{attribute 'sources' must be integers such as array<i64: 0, 1>, found 1 : i64}}
  %3 = "dtensor.shard_permute"(%arg0) {axes = #dtensor.axes<@mesh, ["x"]>, sources = 1 : i64} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  // expected-error @below {{readers are [0, 2]; give devices from 0 to 1}}
  %4 = "dtensor.shard_permute"(%arg0) {axes = #dtensor.axes<@mesh, ["x"]>, readers = array<i64: 0, 2>, sources = array<i64: 1, 0>} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  return
}
