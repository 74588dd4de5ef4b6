// RUN: dtensor-opt %s --split-input-file -p dtensor-import -p dtensor-fuse-cuts | filecheck %s

// Sums from the start of what was padded are those of what was not, between zeros and the last one.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// CHECK-LABEL: func.func public @main
func.func public @main(%a: tensor<16x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<19x3xf32> {
  // CHECK: %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  // CHECK: %[[SUMS:.*]] = "stablehlo.reduce_window"(%arg0, %[[ZERO]]) <{padding = dense<{{\[\[}}15, 0], [0, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 16, 1>}>
  // CHECK: %[[LAST:.*]] = stablehlo.slice %[[SUMS]] [15:16, 0:3]
  // CHECK: %[[FRONT:.*]] = stablehlo.broadcast_in_dim %[[ZERO]], dims = [] : (tensor<f32>) -> tensor<1x3xf32>
  // CHECK: %[[BEHIND:.*]] = stablehlo.broadcast_in_dim %[[LAST]], dims = [0, 1] : (tensor<1x3xf32>) -> tensor<2x3xf32>
  // CHECK: stablehlo.concatenate %[[FRONT]], %[[SUMS]], %[[BEHIND]], dim = 0
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.pad %a, %zero, low = [1, 0], high = [2, 0], interior = [0, 0] : (tensor<16x3xf32>, tensor<f32>) -> tensor<19x3xf32>
  %1 = "stablehlo.reduce_window"(%0, %zero) <{window_dimensions = array<i64: 19, 1>, padding = dense<[[18, 0], [0, 0]]> : tensor<2x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<19x3xf32>, tensor<f32>) -> tensor<19x3xf32>
  %2 = stablehlo.negate %1 : tensor<19x3xf32>
  return %2 : tensor<19x3xf32>
}

// -----

// What the program gives back stays: it is as long as that, and rows move there once.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// CHECK-LABEL: func.func public @main
func.func public @main(%a: tensor<16x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<19x3xf32> {
  // CHECK: stablehlo.pad %arg0
  // CHECK-NOT: stablehlo.concatenate
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.pad %a, %zero, low = [1, 0], high = [2, 0], interior = [0, 0] : (tensor<16x3xf32>, tensor<f32>) -> tensor<19x3xf32>
  %1 = "stablehlo.reduce_window"(%0, %zero) <{window_dimensions = array<i64: 19, 1>, padding = dense<[[18, 0], [0, 0]]> : tensor<2x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<19x3xf32>, tensor<f32>) -> tensor<19x3xf32>
  return %1 : tensor<19x3xf32>
}

// -----

// What is cut out of sums from the end is summed by itself, and what was behind it added.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// CHECK-LABEL: func.func public @main
func.func public @main(%a: tensor<18xf32>) -> (tensor<16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) {
  // CHECK: %[[LAST:.*]] = stablehlo.slice %arg0 [17:18]
  // CHECK: %[[KEPT:.*]] = stablehlo.slice %arg0 [1:17]
  // CHECK: %[[SUMS:.*]] = "stablehlo.reduce_window"(%[[KEPT]]
  // CHECK: stablehlo.reduce(%[[LAST]]
  // CHECK: %[[TOTAL:.*]] = stablehlo.broadcast_in_dim
  // CHECK: stablehlo.add %[[TOTAL]], %[[SUMS]] : tensor<16xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%a, %zero) <{window_dimensions = array<i64: 18>, padding = dense<[[0, 17]]> : tensor<1x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<18xf32>, tensor<f32>) -> tensor<18xf32>
  %1 = stablehlo.slice %0 [1:17] : (tensor<18xf32>) -> tensor<16xf32>
  return %1 : tensor<16xf32>
}

// -----

// Of what no layout splits nothing changes, nor of padding that sums would notice.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// CHECK-LABEL: func.func public @main
func.func public @main(%a: tensor<16x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<16x11xf32>, tensor<19x8xf32>) {
  // CHECK: stablehlo.pad %arg0, %{{.*}}, low = [0, 1], high = [0, 2]
  // CHECK-NOT: stablehlo.concatenate
  // CHECK: stablehlo.pad %arg0, %{{.*}}, low = [1, 0], high = [2, 0]
  // CHECK-NOT: stablehlo.concatenate
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %0 = stablehlo.pad %a, %zero, low = [0, 1], high = [0, 2], interior = [0, 0] : (tensor<16x8xf32>, tensor<f32>) -> tensor<16x11xf32>
  %1 = "stablehlo.reduce_window"(%0, %zero) <{window_dimensions = array<i64: 1, 11>, padding = dense<[[0, 0], [10, 0]]> : tensor<2x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<16x11xf32>, tensor<f32>) -> tensor<16x11xf32>
  %2 = stablehlo.pad %a, %one, low = [1, 0], high = [2, 0], interior = [0, 0] : (tensor<16x8xf32>, tensor<f32>) -> tensor<19x8xf32>
  %3 = "stablehlo.reduce_window"(%2, %zero) <{window_dimensions = array<i64: 19, 1>, padding = dense<[[18, 0], [0, 0]]> : tensor<2x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<19x8xf32>, tensor<f32>) -> tensor<19x8xf32>
  return %1, %3 : tensor<16x11xf32>, tensor<19x8xf32>
}
