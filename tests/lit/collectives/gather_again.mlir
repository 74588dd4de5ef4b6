// RUN: dtensor-opt %s -p "dtensor-gather-again{bytes=100000}" --machine v5e --split-input-file | filecheck %s
// RUN: dtensor-opt %s -p "dtensor-gather-again" --machine v5e --split-input-file | filecheck %s --check-prefix=FITS
// RUN: dtensor-opt %s -p "dtensor-gather-again{bytes=1}" --split-input-file | filecheck %s --check-prefix=FITS

// A value that is gathered before the peak, which %2 is, and read after it. It is gathered again
// before what reads it next, and not before what that reads beside it is there: a barrier says so.
// Nothing changes where no memory is short, or in the order of XLA for CPUs, which holds to no
// barriers.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @read_twice
// FITS-LABEL: func.func @read_twice
func.func @read_twice(%x: tensor<3x16xf32>, %w: tensor<8x32xf32>, %u: tensor<32x99xf32>) -> tensor<3x16xf32> {
  // CHECK: %[[G:.*]] = "dtensor.all_gather"(%arg1)
  // CHECK-NEXT: dot_general %arg0, %[[G]]
  // FITS-NOT: optimization_barrier
  %g = "dtensor.all_gather"(%w) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64} : (tensor<8x32xf32>) -> tensor<16x32xf32>
  %0 = stablehlo.dot_general %x, %g, contracting_dims = [1] x [0] : (tensor<3x16xf32>, tensor<16x32xf32>) -> tensor<3x32xf32>
  %1 = stablehlo.dot_general %0, %u, contracting_dims = [1] x [0] : (tensor<3x32xf32>, tensor<32x99xf32>) -> tensor<3x99xf32>
  %2 = stablehlo.dot_general %1, %1, contracting_dims = [0] x [0] : (tensor<3x99xf32>, tensor<3x99xf32>) -> tensor<99x99xf32>
  %3 = stablehlo.dot_general %1, %2, contracting_dims = [1] x [0] : (tensor<3x99xf32>, tensor<99x99xf32>) -> tensor<3x99xf32>
  // CHECK: %[[CT:.*]] = stablehlo.dot_general %{{.*}}, %arg2, contracting_dims = [1] x [1]
  // CHECK-NEXT: %[[B:.*]]:2 = stablehlo.optimization_barrier %arg1, %[[CT]]
  // CHECK-NEXT: %[[AGAIN:.*]] = "dtensor.all_gather"(%[[B]]#0) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64} : (tensor<8x32xf32>) -> tensor<16x32xf32>
  // CHECK-NEXT: dot_general %[[B]]#1, %[[AGAIN]]
  %4 = stablehlo.dot_general %3, %u, contracting_dims = [1] x [1] : (tensor<3x99xf32>, tensor<32x99xf32>) -> tensor<3x32xf32>
  %5 = stablehlo.dot_general %4, %g, contracting_dims = [1] x [1] : (tensor<3x32xf32>, tensor<16x32xf32>) -> tensor<3x16xf32>
  return %5 : tensor<3x16xf32>
}

// -----

// What is made of the gathered value by element is made again too. Behind a barrier that the
// program has, as jax.checkpoint writes one, the shard passes it, and all that reads it behind the
// barrier reads one gather.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @behind_a_barrier
// FITS-LABEL: func.func @behind_a_barrier
func.func @behind_a_barrier(%x: tensor<3x16xf32>, %w: tensor<8x32xbf16>, %u: tensor<32x99xf32>) -> (tensor<3x16xf32>, tensor<16x32xf32>) {
  // FITS: optimization_barrier %{{.*}} : tensor<16x32xf32>, tensor<3x32xf32>
  %g = "dtensor.all_gather"(%w) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64} : (tensor<8x32xbf16>) -> tensor<16x32xbf16>
  %h = stablehlo.convert %g : (tensor<16x32xbf16>) -> tensor<16x32xf32>
  %0 = stablehlo.dot_general %x, %h, contracting_dims = [1] x [0] : (tensor<3x16xf32>, tensor<16x32xf32>) -> tensor<3x32xf32>
  %1 = stablehlo.dot_general %0, %u, contracting_dims = [1] x [0] : (tensor<3x32xf32>, tensor<32x99xf32>) -> tensor<3x99xf32>
  %2 = stablehlo.dot_general %1, %1, contracting_dims = [0] x [0] : (tensor<3x99xf32>, tensor<3x99xf32>) -> tensor<99x99xf32>
  %3 = stablehlo.dot_general %1, %2, contracting_dims = [1] x [0] : (tensor<3x99xf32>, tensor<99x99xf32>) -> tensor<3x99xf32>
  %4 = stablehlo.dot_general %3, %u, contracting_dims = [1] x [1] : (tensor<3x99xf32>, tensor<32x99xf32>) -> tensor<3x32xf32>
  // CHECK: %[[B:.*]]:2 = stablehlo.optimization_barrier %arg1, %{{.*}} : tensor<8x32xbf16>, tensor<3x32xf32>
  // CHECK-NEXT: %[[AGAIN:.*]] = "dtensor.all_gather"(%[[B]]#0)
  // CHECK-NEXT: %[[WIDE:.*]] = stablehlo.convert %[[AGAIN]]
  // CHECK-NEXT: %[[FIRST:.*]] = stablehlo.dot_general %[[B]]#1, %[[WIDE]]
  // CHECK: stablehlo.dot_general %{{.*}}, %[[WIDE]]
  // CHECK-NOT: dtensor.all_gather
  %b:2 = stablehlo.optimization_barrier %h, %4 : tensor<16x32xf32>, tensor<3x32xf32>
  %5 = stablehlo.dot_general %b#1, %b#0, contracting_dims = [1] x [1] : (tensor<3x32xf32>, tensor<16x32xf32>) -> tensor<3x16xf32>
  %6 = stablehlo.dot_general %5, %5, contracting_dims = [0] x [0] : (tensor<3x16xf32>, tensor<3x16xf32>) -> tensor<16x16xf32>
  %7 = stablehlo.dot_general %6, %b#0, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
  return %5, %7 : tensor<3x16xf32>, tensor<16x32xf32>
}

// -----

// What nothing reads before the peak is gathered after it, and just once; here it is read by what
// stands in a region of the loop, which waits for another value that the loop begins with.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @read_in_a_loop
// FITS-LABEL: func.func @read_in_a_loop
func.func @read_in_a_loop(%x: tensor<3x8xf32>, %w: tensor<16x32xf32>, %u: tensor<16x99xf32>, %n: tensor<i32>) -> tensor<3x32xf32> {
  // CHECK-NOT: dtensor.all_gather
  // FITS-NOT: optimization_barrier
  %s = stablehlo.dot_general %w, %w, contracting_dims = [1] x [1] : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x16xf32>
  %t = stablehlo.dot_general %s, %w, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
  %g = "dtensor.all_gather"(%t) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64} : (tensor<16x32xf32>) -> tensor<32x32xf32>
  %0 = stablehlo.dot_general %u, %u, contracting_dims = [0] x [0] : (tensor<16x99xf32>, tensor<16x99xf32>) -> tensor<99x99xf32>
  %1 = stablehlo.dot_general %u, %0, contracting_dims = [1] x [0] : (tensor<16x99xf32>, tensor<99x99xf32>) -> tensor<16x99xf32>
  %2 = stablehlo.dot_general %1, %u, contracting_dims = [1] x [1] : (tensor<16x99xf32>, tensor<16x99xf32>) -> tensor<16x16xf32>
  // CHECK: %[[FIRST:.*]] = stablehlo.slice
  %3 = stablehlo.slice %2 [0:3, 0:16] : (tensor<16x16xf32>) -> tensor<3x16xf32>
  %4 = stablehlo.concatenate %3, %3, dim = 1 : (tensor<3x16xf32>, tensor<3x16xf32>) -> tensor<3x32xf32>
  // CHECK: %[[B:.*]]:2 = stablehlo.optimization_barrier %{{.*}}, %{{.*}} : tensor<16x32xf32>, tensor<3x32xf32>
  // CHECK-NEXT: %[[G:.*]] = "dtensor.all_gather"(%[[B]]#0)
  // CHECK-NEXT: stablehlo.while(%{{.*}} = %arg3, %{{.*}} = %[[B]]#1)
  // CHECK: stablehlo.dot_general %{{.*}}, %[[G]]
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %5:2 = stablehlo.while(%i = %n, %c = %4) : tensor<i32>, tensor<3x32xf32>
  cond {
    %6 = stablehlo.compare GT, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %6 : tensor<i1>
  } do {
    %6 = stablehlo.subtract %i, %one : tensor<i32>
    %7 = stablehlo.dot_general %c, %g, contracting_dims = [1] x [0] : (tensor<3x32xf32>, tensor<32x32xf32>) -> tensor<3x32xf32>
    stablehlo.return %6, %7 : tensor<i32>, tensor<3x32xf32>
  }
  return %5#1 : tensor<3x32xf32>
}

// -----

// A value that is a result is there at the end, whatever else reads it.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @passed_on
func.func @passed_on(%w: tensor<8x32xf32>, %u: tensor<3x99xf32>) -> (tensor<16x32xf32>, tensor<3x99xf32>) {
  // CHECK-NOT: optimization_barrier
  %g = "dtensor.all_gather"(%w) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64} : (tensor<8x32xf32>) -> tensor<16x32xf32>
  %2 = stablehlo.dot_general %u, %u, contracting_dims = [0] x [0] : (tensor<3x99xf32>, tensor<3x99xf32>) -> tensor<99x99xf32>
  %3 = stablehlo.dot_general %u, %2, contracting_dims = [1] x [0] : (tensor<3x99xf32>, tensor<99x99xf32>) -> tensor<3x99xf32>
  return %g, %3 : tensor<16x32xf32>, tensor<3x99xf32>
}

// -----

// What a loop reads all the time is gathered in each turn: what it captures, and what it carries and
// does not change. Its condition reads nothing of it. Read after the loop as well, it is gathered
// there.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @in_each_turn
// FITS-LABEL: func.func @in_each_turn
func.func @in_each_turn(%x: tensor<3x32xf32>, %w: tensor<16x32xf32>, %v: tensor<8x32xf32>, %u: tensor<16x99xf32>, %n: tensor<i32>) -> (tensor<3x32xf32>, tensor<32x3xf32>) {
  // CHECK-NOT: dtensor.all_gather
  // CHECK: %[[W:.*]]:3 = stablehlo.while(%{{.*}} = %arg4, %[[C:.*]] = %arg0, %[[V:.*]] = %arg2)
  // CHECK-NOT: dtensor.all_gather
  // CHECK: do {
  // CHECK: %[[G:.*]] = "dtensor.all_gather"(%arg1)
  // CHECK-NEXT: %[[A:.*]] = stablehlo.dot_general %[[C]], %[[G]]
  // CHECK: %[[H:.*]] = "dtensor.all_gather"(%[[V]])
  // CHECK-NEXT: stablehlo.dot_general %{{.*}}, %[[H]]
  // CHECK-NOT: dtensor.all_gather
  // CHECK: stablehlo.return %{{.*}}, %{{.*}}, %[[V]] : tensor<i32>, tensor<3x32xf32>, tensor<8x32xf32>
  // FITS: dtensor.all_gather
  // FITS: dtensor.all_gather
  // FITS: stablehlo.while
  // FITS-NOT: dtensor.all_gather
  %g = "dtensor.all_gather"(%w) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64} : (tensor<16x32xf32>) -> tensor<32x32xf32>
  %h = "dtensor.all_gather"(%v) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<8x32xf32>) -> tensor<32x32xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:3 = stablehlo.while(%i = %n, %c = %x, %k = %h) : tensor<i32>, tensor<3x32xf32>, tensor<32x32xf32>
  cond {
    %1 = stablehlo.compare GT, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %1 = stablehlo.subtract %i, %one : tensor<i32>
    %2 = stablehlo.dot_general %c, %g, contracting_dims = [1] x [0] : (tensor<3x32xf32>, tensor<32x32xf32>) -> tensor<3x32xf32>
    %3 = stablehlo.dot_general %2, %2, contracting_dims = [0] x [0] : (tensor<3x32xf32>, tensor<3x32xf32>) -> tensor<32x32xf32>
    %4 = stablehlo.dot_general %2, %3, contracting_dims = [1] x [0] : (tensor<3x32xf32>, tensor<32x32xf32>) -> tensor<3x32xf32>
    %5 = stablehlo.dot_general %4, %k, contracting_dims = [1] x [0] : (tensor<3x32xf32>, tensor<32x32xf32>) -> tensor<3x32xf32>
    stablehlo.return %1, %5, %k : tensor<i32>, tensor<3x32xf32>, tensor<32x32xf32>
  }
  // CHECK: %[[AFTER:.*]] = "dtensor.all_gather"
  // CHECK-NEXT: dot_general %[[AFTER]]
  %6 = stablehlo.dot_general %0#2, %0#1, contracting_dims = [1] x [1] : (tensor<32x32xf32>, tensor<3x32xf32>) -> tensor<32x3xf32>
  return %0#1, %6 : tensor<3x32xf32>, tensor<32x3xf32>
}

// -----

// What a loop changes stays as it is.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @changed
// FITS-LABEL: func.func @changed
func.func @changed(%w: tensor<16x32xf32>, %n: tensor<i32>) -> tensor<32x32xf32> {
  // CHECK: %[[G:.*]] = "dtensor.all_gather"(%arg0)
  // CHECK: stablehlo.while(%{{.*}} = %arg1, %{{.*}} = %[[G]])
  // CHECK-NOT: dtensor.all_gather
  %g = "dtensor.all_gather"(%w) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64} : (tensor<16x32xf32>) -> tensor<32x32xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%i = %n, %k = %g) : tensor<i32>, tensor<32x32xf32>
  cond {
    %1 = stablehlo.compare GT, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %1 = stablehlo.subtract %i, %one : tensor<i32>
    %2 = stablehlo.dot_general %k, %k, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %3 = stablehlo.dot_general %2, %2, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %4 = stablehlo.dot_general %3, %k, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    stablehlo.return %1, %4 : tensor<i32>, tensor<32x32xf32>
  }
  return %0#1 : tensor<32x32xf32>
}

// -----

// What a loop makes of a captured value by element, before the peak and read after it, is made in the
// loop once more of what is gathered there.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @turned_in_a_loop
// FITS-LABEL: func.func @turned_in_a_loop
func.func @turned_in_a_loop(%x: tensor<3x32xf32>, %w: tensor<16x32xf32>, %n: tensor<i32>) -> tensor<3x32xf32> {
  // CHECK-NOT: dtensor.all_gather
  // CHECK: do {
  // CHECK: %[[G:.*]] = "dtensor.all_gather"(%arg1)
  // CHECK: %[[T:.*]] = stablehlo.transpose %[[G]]
  // CHECK: stablehlo.dot_general %{{.*}}, %[[T]]
  // CHECK: optimization_barrier %arg1
  // CHECK: "dtensor.all_gather"
  // CHECK-NEXT: stablehlo.transpose
  // CHECK-NEXT: stablehlo.dot_general
  // FITS: dtensor.all_gather
  // FITS: stablehlo.while
  // FITS-NOT: dtensor.all_gather
  %g = "dtensor.all_gather"(%w) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64} : (tensor<16x32xf32>) -> tensor<32x32xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%i = %n, %c = %x) : tensor<i32>, tensor<3x32xf32>
  cond {
    %1 = stablehlo.compare GT, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %1 = stablehlo.subtract %i, %one : tensor<i32>
    %t = stablehlo.transpose %g, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %2 = stablehlo.dot_general %c, %t, contracting_dims = [1] x [0] : (tensor<3x32xf32>, tensor<32x32xf32>) -> tensor<3x32xf32>
    %3 = stablehlo.dot_general %2, %2, contracting_dims = [0] x [0] : (tensor<3x32xf32>, tensor<3x32xf32>) -> tensor<32x32xf32>
    %4 = stablehlo.dot_general %3, %3, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %5 = stablehlo.dot_general %2, %4, contracting_dims = [1] x [0] : (tensor<3x32xf32>, tensor<32x32xf32>) -> tensor<3x32xf32>
    %6 = stablehlo.dot_general %5, %t, contracting_dims = [1] x [0] : (tensor<3x32xf32>, tensor<32x32xf32>) -> tensor<3x32xf32>
    stablehlo.return %1, %6 : tensor<i32>, tensor<3x32xf32>
  }
  return %0#1 : tensor<3x32xf32>
}
