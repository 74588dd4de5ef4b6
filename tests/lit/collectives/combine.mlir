// RUN: dtensor-opt %s -p dtensor-optimize-collectives | filecheck %s
// RUN: dtensor-opt %s --pass-pipeline='builtin.module(dtensor-optimize-collectives{combine-bytes=50})' | filecheck %s --check-prefix=SMALL

// Several all_reduces over the same axes are one message, as long as nothing waits for the first.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @independent_sums
// SMALL-LABEL: func.func @independent_sums
func.func @independent_sums(%arg0: tensor<2x3xf32>, %arg1: tensor<4xf32>, %arg2: tensor<5xf32>) -> (tensor<2x3xf32>, tensor<4xf32>, tensor<5xf32>) {
  // CHECK: %[[R:.*]]:3 = "dtensor.all_reduce"(%arg0, %{{.*}}, %arg2) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"}
  // CHECK-NEXT: return %[[R]]#0, %[[R]]#1, %[[R]]#2
  // SMALL: "dtensor.all_reduce"(%arg0, %{{[0-9]+}}) {axes
  // SMALL: "dtensor.all_reduce"(%arg2)
  %0 = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.add %arg1, %arg1 : tensor<4xf32>
  %2 = "dtensor.all_reduce"(%1) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = "dtensor.all_reduce"(%arg2) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<5xf32>) -> tensor<5xf32>
  return %0, %2, %3 : tensor<2x3xf32>, tensor<4xf32>, tensor<5xf32>
}

// CHECK-LABEL: func.func @the_second_waits_for_the_first
// SMALL-LABEL: func.func @the_second_waits_for_the_first
func.func @the_second_waits_for_the_first(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  // CHECK: %[[A:.*]] = "dtensor.all_reduce"(%arg0)
  // CHECK: stablehlo.multiply %[[A]]
  // CHECK: %[[B:.*]] = "dtensor.all_reduce"(%{{.*}})
  // CHECK: return %[[A]], %[[B]]
  %0 = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.multiply %0, %arg1 : tensor<2x3xf32>
  %2 = "dtensor.all_reduce"(%1) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0, %2 : tensor<2x3xf32>, tensor<2x3xf32>
}

// StableHLO reduces all operands by one body: element types must agree, and axes and kind too.

// CHECK-LABEL: func.func @of_different_kinds
func.func @of_different_kinds(%arg0: tensor<2x3xf32>, %arg1: tensor<4xbf16>, %arg2: tensor<5xf32>, %arg3: tensor<7xf32>) -> (tensor<2x3xf32>, tensor<4xbf16>, tensor<5xf32>, tensor<7xf32>) {
  // CHECK-COUNT-4: "dtensor.all_reduce"(%arg{{[0-3]}})
  %0 = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "dtensor.all_reduce"(%arg1) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<4xbf16>) -> tensor<4xbf16>
  %2 = "dtensor.all_reduce"(%arg2) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "max"} : (tensor<5xf32>) -> tensor<5xf32>
  %3 = "dtensor.all_reduce"(%arg3) {axes = #dtensor.axes<@mesh, ["x"]>, reduction = "sum"} : (tensor<7xf32>) -> tensor<7xf32>
  return %0, %1, %2, %3 : tensor<2x3xf32>, tensor<4xbf16>, tensor<5xf32>, tensor<7xf32>
}

// A loop that uses the first sum stands before the second one.

// CHECK-LABEL: func.func @used_inside_a_loop
func.func @used_inside_a_loop(%arg0: tensor<f32>, %arg1: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  // CHECK: "dtensor.all_reduce"(%arg0)
  // CHECK: stablehlo.while
  // CHECK: "dtensor.all_reduce"(%arg1)
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
