// RUN: dtensor-opt %s --split-input-file --dtensor-find-forms | filecheck %s

// Windows start from what changes nothing; the value is combined with the result, once.

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<6xi32>, %start: tensor<i32>) -> tensor<4xi32> {
  // CHECK: %[[ZERO:.*]] = stablehlo.constant dense<0> : tensor<i32>
  // CHECK: %[[WINDOWS:.*]] = "stablehlo.reduce_window"(%arg0, %[[ZERO]])
  // CHECK: %[[START:.*]] = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<i32>) -> tensor<4xi32>
  // CHECK: stablehlo.add %[[WINDOWS]], %[[START]] : tensor<4xi32>
  %0 = "stablehlo.reduce_window"(%x, %start) <{window_dimensions = array<i64: 3>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %1 = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %1 : tensor<i32>
  }) : (tensor<6xi32>, tensor<i32>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

// A maximum may meet it again.

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<6xi32>, %start: tensor<i32>) -> tensor<4xi32> {
  // CHECK: "stablehlo.reduce_window"(%arg0, %arg1)
  %0 = "stablehlo.reduce_window"(%x, %start) <{window_dimensions = array<i64: 3>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %1 = stablehlo.maximum %a, %b : tensor<i32>
    stablehlo.return %1 : tensor<i32>
  }) : (tensor<6xi32>, tensor<i32>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

// A scan keeps it: XLA may meet it twice there.

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<6xi32>, %start: tensor<i32>) -> tensor<6xi32> {
  // CHECK: "stablehlo.reduce_window"(%arg0, %arg1)
  %0 = "stablehlo.reduce_window"(%x, %start) <{window_dimensions = array<i64: 6>, padding = dense<[[5, 0]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %1 = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %1 : tensor<i32>
  }) : (tensor<6xi32>, tensor<i32>) -> tensor<6xi32>
  return %0 : tensor<6xi32>
}
