// RUN: dtensor-opt %s -p dtensor-lower | filecheck %s
// RUN: dtensor-opt %s --dtensor-lower='keep-layouts=true' | filecheck %s --check-prefix=KEEP
// RUN: dtensor-opt %s --dtensor-lower='variadic=true' | filecheck %s --check-prefix=VARIADIC
// RUN: dtensor-opt %s --dtensor-lower='bits=true' | filecheck %s --check-prefix=INTEGERS

// Each collective becomes StableHLO's, on mesh positions: device (x, y) is 4 x + y.

// CHECK-NOT: dtensor
// KEEP: "dtensor.mesh"
module attributes {dtensor.local} {
"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @gather
// KEEP: dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>
func.func @gather(%arg0: tensor<2x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>, tf.aliasing_output = 0 : i32}) -> tensor<8x3xf32> {
  // CHECK-SAME: {tf.aliasing_output = 0 : i32}
  // CHECK: "stablehlo.all_gather"(%arg0) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
  // CHECK-SAME: replica_groups = dense<{{\[\[}}0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, use_global_device_ids}>
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<2x3xf32>) -> tensor<8x3xf32>
  return %0 : tensor<8x3xf32>
}

// Several operands: a row of each device, and of the rows the columns of each.

// CHECK-LABEL: func.func @gather_two
func.func @gather_two(%arg0: tensor<2x3xf32>, %arg1: tensor<5x1x4xf32>) -> (tensor<2x12xf32>, tensor<5x4x4xf32>) {
  // CHECK: %[[A:.*]] = stablehlo.reshape %arg0 : (tensor<2x3xf32>) -> tensor<1x6xf32>
  // CHECK: %[[B:.*]] = stablehlo.reshape %arg1 : (tensor<5x1x4xf32>) -> tensor<1x20xf32>
  // CHECK: %[[ROW:.*]] = stablehlo.concatenate %[[A]], %[[B]], dim = 1
  // CHECK: %[[ROWS:.*]] = "stablehlo.all_gather"(%[[ROW]]) <{all_gather_dim = 0 : i64, {{.*}} (tensor<1x26xf32>) -> tensor<4x26xf32>
  // CHECK: %[[C:.*]] = stablehlo.slice %[[ROWS]] [0:4, 0:6]
  // CHECK: %[[D:.*]] = stablehlo.reshape %[[C]] : (tensor<4x6xf32>) -> tensor<4x2x3xf32>
  // CHECK: %[[E:.*]] = stablehlo.transpose %[[D]], dims = [1, 0, 2]
  // CHECK: %[[ONE:.*]] = stablehlo.reshape %[[E]] : (tensor<2x4x3xf32>) -> tensor<2x12xf32>
  // CHECK: stablehlo.slice %[[ROWS]] [0:4, 6:26]
  // CHECK: stablehlo.transpose {{.*}}, dims = [1, 0, 2, 3]
  // CHECK: %[[TWO:.*]] = stablehlo.reshape {{.*}} -> tensor<5x4x4xf32>
  // CHECK: return %[[ONE]], %[[TWO]]
  %0:2 = "dtensor.all_gather"(%arg0, %arg1) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 1 : i64} : (tensor<2x3xf32>, tensor<5x1x4xf32>) -> (tensor<2x12xf32>, tensor<5x4x4xf32>)
  return %0#0, %0#1 : tensor<2x12xf32>, tensor<5x4x4xf32>
}

// CHECK-LABEL: func.func @permute_two
func.func @permute_two(%arg0: tensor<2x3xf32>, %arg1: tensor<f32>) -> (tensor<2x3xf32>, tensor<f32>) {
  // CHECK: %[[ROW:.*]] = stablehlo.concatenate {{.*}} -> tensor<1x7xf32>
  // CHECK: "stablehlo.collective_permute"(%[[ROW]])
  // CHECK: %[[ONE:.*]] = stablehlo.reshape {{.*}} -> tensor<2x3xf32>
  // CHECK: %[[TWO:.*]] = stablehlo.reshape {{.*}} -> tensor<f32>
  // CHECK: return %[[ONE]], %[[TWO]]
  %0:2 = "dtensor.collective_permute"(%arg0, %arg1) {from = #dtensor.axes<@mesh, ["x", "y"]>, to = #dtensor.axes<@mesh, ["y", "x"]>} : (tensor<2x3xf32>, tensor<f32>) -> (tensor<2x3xf32>, tensor<f32>)
  return %0#0, %0#1 : tensor<2x3xf32>, tensor<f32>
}

// Of several types they are integers on the way.

// CHECK-LABEL: func.func @gather_two_types
func.func @gather_two_types(%arg0: tensor<3xbf16>, %arg1: tensor<2xui16>) -> (tensor<12xbf16>, tensor<8xui16>) {
  // CHECK: stablehlo.bitcast_convert %arg0 : (tensor<3xbf16>) -> tensor<3xi16>
  // CHECK: stablehlo.bitcast_convert %arg1 : (tensor<2xui16>) -> tensor<2xi16>
  // CHECK: (tensor<1x5xi16>) -> tensor<4x5xi16>
  // CHECK: stablehlo.bitcast_convert {{.*}} -> tensor<12xbf16>
  // CHECK: stablehlo.bitcast_convert {{.*}} -> tensor<8xui16>
  %0:2 = "dtensor.all_gather"(%arg0, %arg1) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<3xbf16>, tensor<2xui16>) -> (tensor<12xbf16>, tensor<8xui16>)
  return %0#0, %0#1 : tensor<12xbf16>, tensor<8xui16>
}

// The first axis is major: along (y, x), device (1, 2) comes after (0, 2) and before (0, 3).

// CHECK-LABEL: func.func @gather_over_two_axes
func.func @gather_over_two_axes(%arg0: tensor<2x3xf32>) -> tensor<2x24xf32> {
  // CHECK: all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 5, type = 1>, replica_groups = dense<{{\[\[}}0, 4, 1, 5, 2, 6, 3, 7]]>
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["y", "x"]>, dim = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x24xf32>
  return %0 : tensor<2x24xf32>
}

// CHECK-LABEL: func.func @gather_over_part_of_an_axis
func.func @gather_over_part_of_an_axis(%arg0: tensor<2x3xf32>) -> tensor<4x3xf32> {
  // CHECK: replica_groups = dense<{{\[\[}}0, 2], [1, 3], [4, 6], [5, 7]]>
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["y":(1)2]>, dim = 0 : i64} : (tensor<2x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// CHECK-LABEL: func.func @reduce
func.func @reduce(%arg0: tensor<2x3xf32>, %arg1: tensor<5xf32>) -> (tensor<2x3xf32>, tensor<5xf32>) {
  // CHECK: %[[R:.*]] = "stablehlo.all_reduce"(%arg0)
  // CHECK-SAME: replica_groups = dense<{{\[\[}}0, 4], [1, 5], [2, 6], [3, 7]]>
  // CHECK: ^bb0(%[[A:.*]]: tensor<f32>, %[[B:.*]]: tensor<f32>):
  // CHECK-NEXT: %[[M:.*]] = stablehlo.add %[[A]], %[[B]]
  // CHECK-NEXT: stablehlo.return %[[M]]
  // CHECK: %[[S:.*]] = "stablehlo.all_reduce"(%arg1)
  // CHECK: return %[[R]], %[[S]]
  // VARIADIC: %[[R:.*]]:2 = "stablehlo.all_reduce"(%arg0, %arg1)
  // VARIADIC: return %[[R]]#0, %[[R]]#1
  %0:2 = "dtensor.all_reduce"(%arg0, %arg1) {axes = #dtensor.axes<@mesh, ["x"]>, reduction = "sum"} : (tensor<2x3xf32>, tensor<5xf32>) -> (tensor<2x3xf32>, tensor<5xf32>)
  return %0#0, %0#1 : tensor<2x3xf32>, tensor<5xf32>
}

// Libraries of collectives lose NaN: floats are compared as integers in which it is the greatest.

// CHECK-LABEL: func.func @greatest_of_floats
func.func @greatest_of_floats(%arg0: tensor<2x3xbf16>, %arg1: tensor<5xbf16>) -> (tensor<2x3xbf16>, tensor<5xbf16>) {
  // CHECK: %[[BITS:.*]] = stablehlo.bitcast_convert %arg0 : (tensor<2x3xbf16>) -> tensor<2x3xi16>
  // CHECK: %[[SIGN:.*]] = stablehlo.shift_right_arithmetic %[[BITS]], {{.*}}
  // CHECK: %[[LOW:.*]] = stablehlo.and %[[SIGN]], {{.*}}
  // CHECK: %[[KEYS:.*]] = stablehlo.xor %[[BITS]], %[[LOW]] : tensor<2x3xi16>
  // CHECK: %[[NAN:.*]] = stablehlo.compare NE, %arg0, %arg0
  // CHECK: %[[TOP:.*]] = stablehlo.constant dense<32767> : tensor<2x3xi16>
  // CHECK: %[[SAFE:.*]] = stablehlo.select %[[NAN]], %[[TOP]], %[[KEYS]]
  // CHECK: %[[R:.*]] = "stablehlo.all_reduce"(%[[SAFE]])
  // CHECK: stablehlo.maximum {{.*}} : tensor<i16>
  // CHECK: "stablehlo.all_reduce"
  // CHECK: stablehlo.shift_right_arithmetic %[[R]], {{.*}}
  // CHECK: %[[BACK:.*]] = stablehlo.xor %[[R]], {{.*}} : tensor<2x3xi16>
  // CHECK: %[[MAX:.*]] = stablehlo.bitcast_convert %[[BACK]] : (tensor<2x3xi16>) -> tensor<2x3xbf16>
  // CHECK: return %[[MAX]], {{.*}}
  %0:2 = "dtensor.all_reduce"(%arg0, %arg1) {axes = #dtensor.axes<@mesh, ["x"]>, reduction = "max"} : (tensor<2x3xbf16>, tensor<5xbf16>) -> (tensor<2x3xbf16>, tensor<5xbf16>)
  return %0#0, %0#1 : tensor<2x3xbf16>, tensor<5xbf16>
}

// CHECK-LABEL: func.func @least_of_floats
func.func @least_of_floats(%arg0: tensor<8x3xf32>) -> tensor<2x3xf32> {
  // CHECK: stablehlo.constant dense<-2147483648> : tensor<8x3xi32>
  // CHECK: "stablehlo.reduce_scatter"
  // CHECK: stablehlo.minimum {{.*}} : tensor<i32>
  // CHECK: (tensor<8x3xi32>) -> tensor<2x3xi32>
  // CHECK: stablehlo.bitcast_convert {{.*}} -> tensor<2x3xf32>
  %0 = "dtensor.reduce_scatter"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64, reduction = "min"} : (tensor<8x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// Sums of truth values saturate; XLA reduces truth values by `or` and `and` only.

// CHECK-LABEL: func.func @sum_of_truth_values
func.func @sum_of_truth_values(%arg0: tensor<2x3xi1>) -> tensor<2x3xi1> {
  // CHECK: "stablehlo.all_reduce"
  // CHECK: stablehlo.or
  %0 = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["x"]>, reduction = "sum"} : (tensor<2x3xi1>) -> tensor<2x3xi1>
  return %0 : tensor<2x3xi1>
}

// XLA does not reduce the bits of integers across devices.

// CHECK-LABEL: func.func @bitwise_or
func.func @bitwise_or(%arg0: tensor<2x3xi32>) -> tensor<2x3xi32> {
  // CHECK: %[[ROW:.*]] = stablehlo.reshape %arg0 : (tensor<2x3xi32>) -> tensor<1x2x3xi32>
  // CHECK-NEXT: %[[ROWS:.*]] = "stablehlo.all_gather"(%[[ROW]]){{.*}} -> tensor<2x2x3xi32>
  // CHECK: stablehlo.reduce(%[[ROWS]] init: {{.*}}) applies stablehlo.or across dimensions = [0]
  %0 = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["x"]>, reduction = "or"} : (tensor<2x3xi32>) -> tensor<2x3xi32>
  return %0 : tensor<2x3xi32>
}

// CHECK-LABEL: func.func @scatter
func.func @scatter(%arg0: tensor<8x3xf32>) -> tensor<2x3xf32> {
  // CHECK: "stablehlo.reduce_scatter"(%arg0) <{channel_handle
  // CHECK-SAME: scatter_dimension = 0 : i64, use_global_device_ids
  // CHECK: stablehlo.add
  %0 = "dtensor.reduce_scatter"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64, reduction = "sum"} : (tensor<8x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @exchange
func.func @exchange(%arg0: tensor<8x3xf32>) -> tensor<2x12xf32> {
  // CHECK: %[[PARTS:.*]] = stablehlo.optimization_barrier %arg0
  // CHECK: "stablehlo.all_to_all"(%[[PARTS]]) <{channel_handle
  // CHECK-SAME: concat_dimension = 1 : i64
  // CHECK-SAME: split_count = 4 : i64, split_dimension = 0 : i64}>
  %0 = "dtensor.all_to_all"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<8x3xf32>) -> tensor<2x12xf32>
  return %0 : tensor<2x12xf32>
}

// Blocks of one dimension are exchanged along it, where it was cut for that alone.

// CHECK-LABEL: func.func @exchange_along
func.func @exchange_along(%arg0: tensor<3x8x5xf32>) -> tensor<3x8x5xf32> {
  // CHECK: %[[PARTS:.*]] = stablehlo.optimization_barrier %arg0 : tensor<3x8x5xf32>
  // CHECK: "stablehlo.all_to_all"(%[[PARTS]]) <{channel_handle
  // CHECK-SAME: concat_dimension = 1 : i64
  // CHECK-SAME: split_count = 4 : i64, split_dimension = 1 : i64}>
  // CHECK-SAME: (tensor<3x8x5xf32>) -> tensor<3x8x5xf32>
  %0 = stablehlo.reshape %arg0 : (tensor<3x8x5xf32>) -> tensor<3x1x4x2x5xf32>
  %1 = "dtensor.all_to_all"(%0) {axes = #dtensor.axes<@mesh, ["y"]>, split_dim = 2 : i64, concat_dim = 1 : i64} : (tensor<3x1x4x2x5xf32>) -> tensor<3x4x1x2x5xf32>
  %2 = stablehlo.reshape %1 : (tensor<3x4x1x2x5xf32>) -> tensor<3x8x5xf32>
  return %2 : tensor<3x8x5xf32>
}

// Four whole shards of two dimensions are no blocks of one.

// CHECK-LABEL: func.func @exchange_of_two
func.func @exchange_of_two(%arg0: tensor<3x4x2xf32>) -> tensor<4x3x2xf32> {
  // CHECK: "stablehlo.all_to_all"
  // CHECK-SAME: concat_dimension = 0 : i64
  // CHECK-SAME: split_dimension = 1 : i64}> : (tensor<1x4x6xf32>) -> tensor<4x1x6xf32>
  %0 = stablehlo.reshape %arg0 : (tensor<3x4x2xf32>) -> tensor<1x4x6xf32>
  %1 = "dtensor.all_to_all"(%0) {axes = #dtensor.axes<@mesh, ["y"]>, split_dim = 1 : i64, concat_dim = 0 : i64} : (tensor<1x4x6xf32>) -> tensor<4x1x6xf32>
  %2 = stablehlo.reshape %1 : (tensor<4x1x6xf32>) -> tensor<4x3x2xf32>
  return %2 : tensor<4x3x2xf32>
}

// The shard of device k along (x, y) moves to device k along (y, x): 1 is (0, 1), then (1, 0) = 4.

// CHECK-LABEL: func.func @permute
func.func @permute(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK: "stablehlo.collective_permute"(%arg0) <{channel_handle
  // CHECK-SAME: source_target_pairs = dense<{{\[\[}}0, 0], [1, 4], [2, 1], [3, 5], [4, 2], [5, 6], [6, 3], [7, 7]]>
  %0 = "dtensor.collective_permute"(%arg0) {from = #dtensor.axes<@mesh, ["x", "y"]>, to = #dtensor.axes<@mesh, ["y", "x"]>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @permute_to_another_axis
func.func @permute_to_another_axis(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK: source_target_pairs = dense<{{\[\[}}0, 0], [1, 1], [2, 4], [3, 5], [4, 2], [5, 3], [6, 6], [7, 7]]>
  %0 = "dtensor.collective_permute"(%arg0) {from = #dtensor.axes<@mesh, ["x"]>, to = #dtensor.axes<@mesh, ["y":(1)2]>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @halo
func.func @halo(%arg0: tensor<6x3xf32>) -> tensor<9x3xf32> {
  // CHECK: %[[LAST:.*]] = stablehlo.slice %arg0 [4:6, 0:3]
  // CHECK-NEXT: %[[LOW:.*]] = "stablehlo.collective_permute"(%[[LAST]])
  // CHECK-SAME: dense<{{\[\[}}0, 1], [1, 2], [2, 3], [4, 5], [5, 6], [6, 7]]>
  // CHECK-NEXT: %[[FIRST:.*]] = stablehlo.slice %arg0 [0:1, 0:3]
  // CHECK-NEXT: %[[HIGH:.*]] = "stablehlo.collective_permute"(%[[FIRST]])
  // CHECK-SAME: dense<{{\[\[}}1, 0], [2, 1], [3, 2], [5, 4], [6, 5], [7, 6]]>
  // CHECK-NEXT: stablehlo.concatenate %[[LOW]], %arg0, %[[HIGH]], dim = 0
  %0 = "dtensor.halo_exchange"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64, low = 2 : i64, high = 1 : i64} : (tensor<6x3xf32>) -> tensor<9x3xf32>
  return %0 : tensor<9x3xf32>
}
// Floats that XLA's CPU code would move as wider ones are moved as integers there.

// INTEGERS-LABEL: func.func @narrow_floats
func.func @narrow_floats(%arg0: tensor<8x3xbf16>, %arg1: tensor<2x5xf8E4M3FN>) -> (tensor<2x12xbf16>, tensor<8x5xf8E4M3FN>, tensor<8x3xbf16>) {
  // INTEGERS: %[[INT:.*]] = stablehlo.bitcast_convert %arg0 : (tensor<8x3xbf16>) -> tensor<8x3xi16>
  // INTEGERS: %[[PARTS:.*]] = stablehlo.optimization_barrier %[[INT]]
  // INTEGERS: %[[MOVED:.*]] = "stablehlo.all_to_all"(%[[PARTS]])
  // INTEGERS: stablehlo.bitcast_convert %[[MOVED]] : (tensor<2x12xi16>) -> tensor<2x12xbf16>
  %0 = "dtensor.all_to_all"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<8x3xbf16>) -> tensor<2x12xbf16>
  // INTEGERS: stablehlo.bitcast_convert %arg1 : (tensor<2x5xf8E4M3FN>) -> tensor<2x5xi8>
  // INTEGERS: "stablehlo.all_gather"
  // INTEGERS: stablehlo.bitcast_convert %{{.*}} : (tensor<8x5xi8>) -> tensor<8x5xf8E4M3FN>
  %1 = "dtensor.all_gather"(%arg1) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<2x5xf8E4M3FN>) -> tensor<8x5xf8E4M3FN>
  // INTEGERS: "stablehlo.collective_permute"(%{{.*}}) {{.*}} : (tensor<8x3xi16>) -> tensor<8x3xi16>
  %2 = "dtensor.collective_permute"(%arg0) {from = #dtensor.axes<@mesh, ["x", "y"]>, to = #dtensor.axes<@mesh, ["y", "x"]>} : (tensor<8x3xbf16>) -> tensor<8x3xbf16>
  return %0, %1, %2 : tensor<2x12xbf16>, tensor<8x5xf8E4M3FN>, tensor<8x3xbf16>
}

// XLA's CPU code writes integers of 2 bits beyond what it receives them in: bytes are moved there.

// INTEGERS-LABEL: func.func @integers_of_two_bits
func.func @integers_of_two_bits(%arg0: tensor<2x5xi2>, %arg1: tensor<8x3xui2>) -> (tensor<8x5xi2>, tensor<2x5xi2>, tensor<8x3xui2>, tensor<2x12xui2>) {
  // INTEGERS: %[[BYTES:.*]] = stablehlo.convert %arg0 : (tensor<2x5xi2>) -> tensor<2x5xi8>
  // INTEGERS: %[[ALL:.*]] = "stablehlo.all_gather"(%[[BYTES]])
  // INTEGERS: stablehlo.convert %[[ALL]] : (tensor<8x5xi8>) -> tensor<8x5xi2>
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<2x5xi2>) -> tensor<8x5xi2>
  // INTEGERS: stablehlo.convert %arg0 : (tensor<2x5xi2>) -> tensor<2x5xi8>
  // INTEGERS: "stablehlo.all_reduce"
  // INTEGERS: stablehlo.add %{{.*}}, %{{.*}} : tensor<i8>
  // INTEGERS: stablehlo.convert %{{.*}} : (tensor<2x5xi8>) -> tensor<2x5xi2>
  %1 = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<2x5xi2>) -> tensor<2x5xi2>
  // INTEGERS: "stablehlo.collective_permute"(%{{.*}}) {{.*}} : (tensor<8x3xui8>) -> tensor<8x3xui8>
  // INTEGERS: stablehlo.convert %{{.*}} : (tensor<8x3xui8>) -> tensor<8x3xui2>
  %2 = "dtensor.collective_permute"(%arg1) {from = #dtensor.axes<@mesh, ["x", "y"]>, to = #dtensor.axes<@mesh, ["y", "x"]>} : (tensor<8x3xui2>) -> tensor<8x3xui2>
  // INTEGERS: "stablehlo.all_to_all"(%{{.*}}) {{.*}} : (tensor<8x3xui8>) -> tensor<2x12xui8>
  // INTEGERS: stablehlo.convert %{{.*}} : (tensor<2x12xui8>) -> tensor<2x12xui2>
  %3 = "dtensor.all_to_all"(%arg1) {axes = #dtensor.axes<@mesh, ["y"]>, split_dim = 0 : i64, concat_dim = 1 : i64} : (tensor<8x3xui2>) -> tensor<2x12xui2>
  return %0, %1, %2, %3 : tensor<8x5xi2>, tensor<2x5xi2>, tensor<8x3xui2>, tensor<2x12xui2>
}

// A loop of unknown length around a collective carries one value that XLA takes to change: the
// smallest. One that counts changes by itself.

// CHECK-LABEL: func.func @loop_of_unknown_length
func.func @loop_of_unknown_length(%arg0: tensor<2x3xf32>, %arg1: tensor<i1> {dtensor.layout = #dtensor.layout<@mesh, []>}) -> tensor<2x3xf32> {
  // CHECK: stablehlo.while
  // CHECK: do {
  // CHECK: %[[B:.*]] = stablehlo.optimization_barrier %[[P:.*]] : tensor<i1>
  // CHECK: stablehlo.return %[[V:.*]], %[[B]] : tensor<2x3xf32>, tensor<i1>
  %w:2 = stablehlo.while(%v = %arg0, %p = %arg1) : tensor<2x3xf32>, tensor<i1> cond {
    %s = "dtensor.all_reduce"(%p) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "or"} : (tensor<i1>) -> tensor<i1>
    stablehlo.return %s : tensor<i1>
  } do {
    stablehlo.return %v, %p : tensor<2x3xf32>, tensor<i1>
  }
  return %w#0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @loop_that_counts
// CHECK-NOT: optimization_barrier
func.func @loop_that_counts(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %w:2 = stablehlo.while(%v = %arg0, %i = %zero) : tensor<2x3xf32>, tensor<i32> cond {
    %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %n = stablehlo.add %i, %one : tensor<i32>
    %s = "dtensor.all_reduce"(%v) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    stablehlo.return %s, %n : tensor<2x3xf32>, tensor<i32>
  }
  return %w#0 : tensor<2x3xf32>
}
}
