// RUN: dtensor-opt %s --dtensor-combine-collectives | filecheck %s
// RUN: dtensor-opt %s --dtensor-combine-collectives='bytes=100' | filecheck %s --check-prefix=LESS

// Small arrays that go the same way over the same axes are one message.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// A loop that uses the first sum stands before the second one, which is there in front of it.

// CHECK-LABEL: func.func @used_inside_a_loop
func.func @used_inside_a_loop(%arg0: tensor<f32>, %arg1: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  // CHECK: %[[R:.*]]:2 = "dtensor.all_reduce"(%arg0, %arg1)
  // CHECK: stablehlo.while
  // CHECK: return %{{.*}}, %[[R]]#1
  %0 = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<f32>) -> tensor<f32>
  %1 = stablehlo.while(%iter = %arg0) : tensor<f32> cond {
    %3 = stablehlo.compare LT, %iter, %0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %3 : tensor<i1>
  } do {
    %3 = stablehlo.add %iter, %0 : tensor<f32>
    stablehlo.return %3 : tensor<f32>
  }
  %2 = "dtensor.all_reduce"(%arg1) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<f32>) -> tensor<f32>
  return %1, %2 : tensor<f32>, tensor<f32>
}

// CHECK-LABEL: func.func @of_what_a_loop_gives
func.func @of_what_a_loop_gives(%arg0: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  // CHECK: "dtensor.all_reduce"(%arg0)
  // CHECK: stablehlo.while
  // CHECK: "dtensor.all_reduce"(%{{[0-9]+}})
  %0 = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<f32>) -> tensor<f32>
  %1 = stablehlo.while(%iter = %arg0) : tensor<f32> cond {
    %3 = stablehlo.compare LT, %iter, %0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %3 : tensor<i1>
  } do {
    %3 = stablehlo.add %iter, %0 : tensor<f32>
    stablehlo.return %3 : tensor<f32>
  }
  %2 = "dtensor.all_reduce"(%1) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<f32>) -> tensor<f32>
  return %1, %2 : tensor<f32>, tensor<f32>
}

// Small arrays are gathered together, of whatever rank. The second is read of a table after the
// first was used: its rows are cut out before.

// CHECK-LABEL: func.func @small_gathers
func.func @small_gathers(%arg0: tensor<2x3xf32>, %arg1: tensor<5x7xf32>) -> (tensor<8x3xf32>, tensor<12xf32>) {
  // CHECK: %[[CUT:.*]] = stablehlo.slice %arg1
  // CHECK: %[[ROW:.*]] = stablehlo.reshape %[[CUT]]
  // CHECK: %[[R:.*]]:2 = "dtensor.all_gather"(%arg0, %[[ROW]]) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<2x3xf32>, tensor<3xf32>) -> (tensor<8x3xf32>, tensor<12xf32>)
  // CHECK-NEXT: stablehlo.multiply %[[R]]#0, %[[R]]#0
  // CHECK-NEXT: return
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<2x3xf32>) -> tensor<8x3xf32>
  %1 = stablehlo.multiply %0, %0 : tensor<8x3xf32>
  %2 = stablehlo.slice %arg1 [2:3, 1:4] : (tensor<5x7xf32>) -> tensor<1x3xf32>
  %3 = stablehlo.reshape %2 : (tensor<1x3xf32>) -> tensor<3xf32>
  %4 = "dtensor.all_gather"(%3) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<3xf32>) -> tensor<12xf32>
  return %1, %4 : tensor<8x3xf32>, tensor<12xf32>
}

// What is moved of the first cannot go with it; what comes after it is read and needs it not, can.

// CHECK-LABEL: func.func @gathers_that_wait
func.func @gathers_that_wait(%arg0: tensor<2x3xf32>) -> (tensor<32x3xf32>, tensor<8x3xf32>) {
  // CHECK: %[[N:.*]] = stablehlo.negate %arg0
  // CHECK: %[[R:.*]]:2 = "dtensor.all_gather"(%arg0, %[[N]])
  // CHECK: %[[T:.*]] = stablehlo.reverse %[[R]]#0
  // CHECK: stablehlo.sine %[[R]]#1
  // CHECK: "dtensor.all_gather"(%[[T]])
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<2x3xf32>) -> tensor<8x3xf32>
  %1 = stablehlo.reverse %0, dims = [0] : tensor<8x3xf32>
  %2 = stablehlo.negate %arg0 : tensor<2x3xf32>
  %3 = "dtensor.all_gather"(%2) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<2x3xf32>) -> tensor<8x3xf32>
  %4 = stablehlo.sine %3 : tensor<8x3xf32>
  %5 = "dtensor.all_gather"(%1) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<8x3xf32>) -> tensor<32x3xf32>
  return %5, %4 : tensor<32x3xf32>, tensor<8x3xf32>
}

// Along other dimensions, of other types, and what is large: each by itself.

// CHECK-LABEL: func.func @unlike_gathers
func.func @unlike_gathers(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xi1>, %arg2: tensor<9000xf32>) -> (tensor<8x3xf32>, tensor<2x12xf32>, tensor<8x3xi1>, tensor<36000xf32>) {
  // CHECK-COUNT-4: "dtensor.all_gather"(%arg{{[0-2]}})
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<2x3xf32>) -> tensor<8x3xf32>
  %1 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x12xf32>
  %2 = "dtensor.all_gather"(%arg1) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<2x3xi1>) -> tensor<8x3xi1>
  %3 = "dtensor.all_gather"(%arg2) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<9000xf32>) -> tensor<36000xf32>
  return %0, %1, %2, %3 : tensor<8x3xf32>, tensor<2x12xf32>, tensor<8x3xi1>, tensor<36000xf32>
}

// What is only moved may be of several types, if their elements are of one size.

// CHECK-LABEL: func.func @of_two_types
func.func @of_two_types(%arg0: tensor<8xf32>, %arg1: tensor<12xi32>) -> (tensor<32xf32>, tensor<48xi32>, tensor<2xf32>, tensor<3xi32>) {
  // CHECK-DAG: "dtensor.all_gather"(%arg0, %arg1)
  // CHECK-DAG: "dtensor.reduce_scatter"(%arg0)
  // CHECK-DAG: "dtensor.reduce_scatter"(%arg1)
  // CHECK: return
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<8xf32>) -> tensor<32xf32>
  %1 = "dtensor.all_gather"(%arg1) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<12xi32>) -> tensor<48xi32>
  %2 = "dtensor.reduce_scatter"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64, reduction = "sum"} : (tensor<8xf32>) -> tensor<2xf32>
  %3 = "dtensor.reduce_scatter"(%arg1) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64, reduction = "sum"} : (tensor<12xi32>) -> tensor<3xi32>
  return %0, %1, %2, %3 : tensor<32xf32>, tensor<48xi32>, tensor<2xf32>, tensor<3xi32>
}

// CHECK-LABEL: func.func @small_exchanges_and_sums
// LESS-LABEL: func.func @small_exchanges_and_sums
func.func @small_exchanges_and_sums(%arg0: tensor<8x3xf32>, %arg1: tensor<4x5x2xf32>) -> (tensor<2x12xf32>, tensor<1x20x2xf32>, tensor<2x3xf32>, tensor<1x5x2xf32>) {
  // CHECK-DAG: %[[S:.*]]:2 = "dtensor.reduce_scatter"(%arg0, %arg1) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64, reduction = "max"}
  // CHECK-DAG: %[[E:.*]]:2 = "dtensor.all_to_all"(%arg0, %arg1) {axes = #dtensor.axes<@mesh, ["y"]>, concat_dim = 1 : i64, split_dim = 0 : i64}
  // CHECK: return %[[E]]#0, %[[E]]#1, %[[S]]#0, %[[S]]#1
  // LESS-COUNT-2: "dtensor.{{.*}}"(%arg0) {
  // LESS-COUNT-2: "dtensor.{{.*}}"(%arg1) {
  %0 = "dtensor.all_to_all"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<8x3xf32>) -> tensor<2x12xf32>
  %1 = "dtensor.reduce_scatter"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64, reduction = "max"} : (tensor<8x3xf32>) -> tensor<2x3xf32>
  %2 = "dtensor.all_to_all"(%arg1) {axes = #dtensor.axes<@mesh, ["y"]>, split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<4x5x2xf32>) -> tensor<1x20x2xf32>
  %3 = "dtensor.reduce_scatter"(%arg1) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64, reduction = "max"} : (tensor<4x5x2xf32>) -> tensor<1x5x2xf32>
  return %0, %2, %1, %3 : tensor<2x12xf32>, tensor<1x20x2xf32>, tensor<2x3xf32>, tensor<1x5x2xf32>
}

// What was combined before stays as it is.

// CHECK-LABEL: func.func @combined
func.func @combined(%arg0: tensor<2x3xf32>, %arg1: tensor<5xf32>) -> (tensor<2x3xf32>, tensor<20xf32>) {
  // CHECK: %[[R:.*]]:2 = "dtensor.all_gather"(%arg0, %arg1)
  // CHECK-NEXT: %[[S:.*]] = "dtensor.all_slice"(%[[R]]#0)
  // CHECK-NEXT: return %[[S]], %[[R]]#1
  %0:2 = "dtensor.all_gather"(%arg0, %arg1) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<2x3xf32>, tensor<5xf32>) -> (tensor<8x3xf32>, tensor<20xf32>)
  %1 = "dtensor.all_slice"(%0#0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<8x3xf32>) -> tensor<2x3xf32>
  return %1, %0#1 : tensor<2x3xf32>, tensor<20xf32>
}

// CHECK-LABEL: func.func @small_permutes
func.func @small_permutes(%arg0: tensor<2x3xf32>, %arg1: tensor<5xf32>) -> (tensor<2x3xf32>, tensor<5xf32>) {
  // CHECK: %[[R:.*]]:2 = "dtensor.collective_permute"(%arg0, %arg1) {from = #dtensor.axes<@mesh, ["x", "y"]>, to = #dtensor.axes<@mesh, ["y", "x"]>}
  // CHECK-NEXT: return %[[R]]#0, %[[R]]#1
  %0 = "dtensor.collective_permute"(%arg0) {from = #dtensor.axes<@mesh, ["x", "y"]>, to = #dtensor.axes<@mesh, ["y", "x"]>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "dtensor.collective_permute"(%arg1) {from = #dtensor.axes<@mesh, ["x", "y"]>, to = #dtensor.axes<@mesh, ["y", "x"]>} : (tensor<5xf32>) -> tensor<5xf32>
  return %0, %1 : tensor<2x3xf32>, tensor<5xf32>
}
