// RUN: dtensor-opt %s -p dtensor-optimize-collectives | filecheck %s

// C++ cse does not know dtensor operations; equal ones are merged and dead ones erased here.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @the_same_gather_twice
func.func @the_same_gather_twice(%arg0: tensor<2x3xf32>) -> (tensor<8x3xf32>, tensor<8x3xf32>) {
  // CHECK: %[[G:.*]] = "dtensor.all_gather"
  // CHECK-NEXT: return %[[G]], %[[G]]
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<2x3xf32>) -> tensor<8x3xf32>
  %1 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<2x3xf32>) -> tensor<8x3xf32>
  return %0, %1 : tensor<8x3xf32>, tensor<8x3xf32>
}

// CHECK-LABEL: func.func @chains_that_nobody_uses
func.func @chains_that_nobody_uses(%arg0: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK-NEXT: return %arg0
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<2x3xf32>) -> tensor<8x3xf32>
  %1 = "dtensor.all_reduce"(%0) {axes = #dtensor.axes<@mesh, ["x"]>, reduction = "sum"} : (tensor<8x3xf32>) -> tensor<8x3xf32>
  return %arg0 : tensor<2x3xf32>
}

// Nor is what only such operations read sent, in a loop or around it.

// CHECK-LABEL: func.func @read_for_nothing
func.func @read_for_nothing(%arg0: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<i32> {
  // CHECK-NOT: dtensor.all
  // CHECK: return
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64} : (tensor<2x3xf32>) -> tensor<4x3xf32>
  %1 = stablehlo.negate %0 : tensor<4x3xf32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %3 = stablehlo.while(%j = %i) : tensor<i32> cond {
    %4 = stablehlo.compare LT, %j, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %4 : tensor<i1>
  } do {
    %4 = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["x"]>, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %5 = stablehlo.negate %4 : tensor<2x3xf32>
    %6 = stablehlo.add %j, %three : tensor<i32>
    stablehlo.return %6 : tensor<i32>
  }
  return %3 : tensor<i32>
}

// An operation in front of a loop is there inside; one behind it, or in another branch, is not.

// CHECK-LABEL: func.func @inside_a_branch
func.func @inside_a_branch(%arg0: tensor<2x3xf32>, %arg1: tensor<i1>) -> (tensor<8x3xf32>, tensor<8x3xf32>) {
  // CHECK: %[[G:.*]] = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>
  // CHECK: "stablehlo.if"
  // CHECK-NEXT: stablehlo.return %[[G]]
  // CHECK: "dtensor.all_reduce"
  // CHECK: "dtensor.all_reduce"
  %0 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<2x3xf32>) -> tensor<8x3xf32>
  %1 = "stablehlo.if"(%arg1) ({
    %2 = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<2x3xf32>) -> tensor<8x3xf32>
    stablehlo.return %2 : tensor<8x3xf32>
  }, {
    %2 = "dtensor.all_reduce"(%0) {axes = #dtensor.axes<@mesh, ["x"]>, reduction = "sum"} : (tensor<8x3xf32>) -> tensor<8x3xf32>
    stablehlo.return %2 : tensor<8x3xf32>
  }) : (tensor<i1>) -> tensor<8x3xf32>
  %3 = "dtensor.all_reduce"(%0) {axes = #dtensor.axes<@mesh, ["x"]>, reduction = "sum"} : (tensor<8x3xf32>) -> tensor<8x3xf32>
  return %1, %3 : tensor<8x3xf32>, tensor<8x3xf32>
}
