// RUN: dtensor-opt %s --split-input-file --mesh x=4 -p dtensor-import,dtensor-find-forms | filecheck %s

// What is looked up at the largest place so far is carried along with it: each place is its own, or 2.

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<32xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}, %m: tensor<32xi1>) -> tensor<32xf32> {
  %least = stablehlo.constant dense<-2147483648> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<32xi32>
  %places = stablehlo.iota dim = 0 : tensor<32xi32>
  // CHECK: %[[PLACE:.*]] = stablehlo.select %arg1
  %0 = stablehlo.select %m, %places, %two : tensor<32xi1>, tensor<32xi32>
  // CHECK: %[[TWO:.*]] = stablehlo.slice %arg0 [2:3]
  // CHECK: %[[ROWS:.*]] = stablehlo.select %arg1, %arg0, %{{.*}} : tensor<32xi1>, tensor<32xf32>
  // CHECK: %[[FOUND:.*]]:2 = "dtensor.scan"(%[[PLACE]], %[[ROWS]])
  // CHECK: ^bb0(%[[A:.*]]: tensor<i32>, %[[B:.*]]: tensor<f32>, %[[C:.*]]: tensor<i32>, %[[D:.*]]: tensor<f32>):
  // CHECK: %[[AHEAD:.*]] = stablehlo.compare GT, %[[C]], %[[A]]
  // CHECK: dim = 0 : i64, reverse = 0 : i64
  // CHECK: return %[[FOUND]]#1
  %1 = "stablehlo.reduce_window"(%0, %least) <{window_dimensions = array<i64: 32>, padding = dense<[[31, 0]]> : tensor<1x2xi64>}> ({
  ^bb0(%p: tensor<i32>, %q: tensor<i32>):
    %5 = stablehlo.maximum %p, %q : tensor<i32>
    stablehlo.return %5 : tensor<i32>
  }) : (tensor<32xi32>, tensor<i32>) -> tensor<32xi32>
  %2 = stablehlo.reshape %1 : (tensor<32xi32>) -> tensor<32x1xi32>
  %3 = "stablehlo.gather"(%x, %2) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}> : (tensor<32xf32>, tensor<32x1xi32>) -> tensor<32xf32>
  return %3 : tensor<32xf32>
}

// -----

// Not of a table that is whole.

// CHECK-LABEL: func.func @main
// CHECK-NOT: dtensor.scan
// CHECK: stablehlo.gather
func.func @main(%x: tensor<32xf32>, %m: tensor<32xi1> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) -> tensor<32xf32> {
  %least = stablehlo.constant dense<-2147483648> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<32xi32>
  %places = stablehlo.iota dim = 0 : tensor<32xi32>
  %0 = stablehlo.select %m, %places, %two : tensor<32xi1>, tensor<32xi32>
  %1 = "stablehlo.reduce_window"(%0, %least) <{window_dimensions = array<i64: 32>, padding = dense<[[31, 0]]> : tensor<1x2xi64>}> ({
  ^bb0(%p: tensor<i32>, %q: tensor<i32>):
    %5 = stablehlo.maximum %p, %q : tensor<i32>
    stablehlo.return %5 : tensor<i32>
  }) : (tensor<32xi32>, tensor<i32>) -> tensor<32xi32>
  %2 = stablehlo.reshape %1 : (tensor<32xi32>) -> tensor<32x1xi32>
  %3 = "stablehlo.gather"(%x, %2) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}> : (tensor<32xf32>, tensor<32x1xi32>) -> tensor<32xf32>
  return %3 : tensor<32xf32>
}

// -----

// Of what is reversed the largest is the largest, whatever is computed of each element before.

// CHECK-LABEL: func.func @main
// CHECK-NOT: stablehlo.reverse
// CHECK: %[[ABS:.*]] = stablehlo.abs %arg0
// CHECK: stablehlo.reduce(%[[ABS]] init: %{{.*}}) applies stablehlo.maximum across dimensions = [0]
func.func @main(%x: tensor<32x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<3xf32> {
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.reverse %x, dims = [0] : tensor<32x3xf32>
  %1 = stablehlo.abs %0 : tensor<32x3xf32>
  %2 = stablehlo.reduce(%1 init: %least) applies stablehlo.maximum across dimensions = [0] : (tensor<32x3xf32>, tensor<f32>) -> tensor<3xf32>
  return %2 : tensor<3xf32>
}
