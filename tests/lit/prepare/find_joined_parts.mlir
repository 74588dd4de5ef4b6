// RUN: dtensor-opt %s --split-input-file --dtensor-import --dtensor-find-forms | filecheck %s

// A loop carries what a vector is joined of, and so does a branch in it. What comes from outside is
// cut, what goes there joined.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%u: tensor<8x2xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %v: tensor<3xf32>, %all: tensor<19xf32>) -> (tensor<8x2xf32>, tensor<19xf32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %bound = stablehlo.constant dense<9.0> : tensor<f32>
  %flat = stablehlo.reshape %u : (tensor<8x2xf32>) -> tensor<16xf32>
  %joined = stablehlo.concatenate %flat, %v, dim = 0 : (tensor<16xf32>, tensor<3xf32>) -> tensor<19xf32>
  // CHECK: %[[HEAD:.*]] = stablehlo.slice %arg2 [0:16]
  // CHECK: %[[TAIL:.*]] = stablehlo.slice %arg2 [16:19]
  // CHECK: %[[FLAT:.*]] = stablehlo.reshape %arg0
  // CHECK-NOT: stablehlo.concatenate
  // CHECK: %[[LOOP:.*]]:3 = stablehlo.while(%[[SUM:.*]] = %{{.*}}, %[[A:.*]] = %[[FLAT]], %[[B:.*]] = %arg1) : tensor<f32>, tensor<16xf32>, tensor<3xf32>
  %0:2 = stablehlo.while(%w = %joined, %sum = %zero) : tensor<19xf32>, tensor<f32>
  cond {
    %1 = stablehlo.compare LT, %sum, %bound : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    // CHECK: %[[AA:.*]] = stablehlo.add %[[A]], %[[HEAD]] : tensor<16xf32>
    // CHECK: %[[BB:.*]] = stablehlo.add %[[B]], %[[TAIL]] : tensor<3xf32>
    %1 = stablehlo.add %w, %all : tensor<19xf32>
    // CHECK: %[[ONE:.*]] = stablehlo.reduce(%[[AA]] init: %[[SUM]]) applies stablehlo.add
    // CHECK: %[[NONE:.*]] = stablehlo.constant dense<-0.000000e+00> : tensor<f32>
    // CHECK: %[[OTHER:.*]] = stablehlo.reduce(%[[BB]] init: %[[NONE]]) applies stablehlo.add
    // CHECK: %[[TOTAL:.*]] = stablehlo.add %[[ONE]], %[[OTHER]]
    %2 = stablehlo.reduce(%1 init: %sum) applies stablehlo.add across dimensions = [0] : (tensor<19xf32>, tensor<f32>) -> tensor<f32>
    // CHECK: stablehlo.dot_general %[[BB]], %[[BB]]
    %3 = stablehlo.slice %1 [16:19] : (tensor<19xf32>) -> tensor<3xf32>
    %4 = stablehlo.dot_general %3, %3, contracting_dims = [0] x [0] : (tensor<3xf32>, tensor<3xf32>) -> tensor<f32>
    %5 = stablehlo.compare LT, %4, %2 : (tensor<f32>, tensor<f32>) -> tensor<i1>
    // CHECK: %[[IF:.*]]:2 = "stablehlo.if"(%{{.*}}) ({
    // CHECK: stablehlo.return %[[AA]], %[[BB]] : tensor<16xf32>, tensor<3xf32>
    // CHECK: stablehlo.return %[[A]], %[[B]] : tensor<16xf32>, tensor<3xf32>
    // CHECK: stablehlo.return %[[TOTAL]], %[[IF]]#0, %[[IF]]#1
    %6 = "stablehlo.if"(%5) ({
      stablehlo.return %1 : tensor<19xf32>
    }, {
      stablehlo.return %w : tensor<19xf32>
    }) : (tensor<i1>) -> tensor<19xf32>
    stablehlo.return %6, %2 : tensor<19xf32>, tensor<f32>
  }
  // CHECK: %[[OUT:.*]] = stablehlo.reshape %[[LOOP]]#1 : (tensor<16xf32>) -> tensor<8x2xf32>
  // CHECK: %[[ALL:.*]] = stablehlo.concatenate %[[LOOP]]#1, %[[LOOP]]#2, dim = 0
  // CHECK: return %[[OUT]], %[[ALL]], %[[LOOP]]#0
  %7 = stablehlo.slice %0#0 [0:16] : (tensor<19xf32>) -> tensor<16xf32>
  %8 = stablehlo.reshape %7 : (tensor<16xf32>) -> tensor<8x2xf32>
  return %8, %0#0, %0#1 : tensor<8x2xf32>, tensor<19xf32>, tensor<f32>
}

// -----

// Of no part shards are known, or an order needs all of it in each trip: it stays whole.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%u: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}, %v: tensor<3xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %first = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<3> : tensor<i32>
  // CHECK: %[[JOINED:.*]] = stablehlo.concatenate %arg0, %arg1
  // CHECK: %[[SMALL:.*]] = stablehlo.concatenate %arg1, %arg1, %{{.*}}, dim = 0
  %joined = stablehlo.concatenate %u, %v, dim = 0 : (tensor<8xf32>, tensor<3xf32>) -> tensor<11xf32>
  %two = stablehlo.slice %v [0:2] : (tensor<3xf32>) -> tensor<2xf32>
  %small = stablehlo.concatenate %v, %v, %two, dim = 0 : (tensor<3xf32>, tensor<3xf32>, tensor<2xf32>) -> tensor<8xf32>
  // CHECK: stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %[[JOINED]], %{{.*}} = %[[SMALL]])
  %0:3 = stablehlo.while(%i = %first, %w = %joined, %s = %small) : tensor<i32>, tensor<11xf32>, tensor<8xf32>
  cond {
    %1 = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %1 = stablehlo.add %i, %one : tensor<i32>
    %2 = "stablehlo.sort"(%w) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %5 = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %5 : tensor<i1>
    }) : (tensor<11xf32>) -> tensor<11xf32>
    %3 = stablehlo.negate %s : tensor<8xf32>
    stablehlo.return %1, %2, %3 : tensor<i32>, tensor<11xf32>, tensor<8xf32>
  }
  %4 = stablehlo.slice %0#1 [0:8] : (tensor<11xf32>) -> tensor<8xf32>
  return %4, %0#2 : tensor<8xf32>, tensor<8xf32>
}
