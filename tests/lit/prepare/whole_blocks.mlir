// RUN: dtensor-opt %s --split-input-file --mesh x=8 --dtensor-import --dtensor-fuse-cuts | filecheck %s

// One of three elements: shards of 8 blocks each have 192 elements, one operand for all phases.

// CHECK-LABEL: func.func @every_third
// CHECK: %[[LONG:.*]] = stablehlo.pad %arg0, %{{.*}}, low = [0, 0], high = [12, 0], interior = [0, 0] : {{.*}} -> tensor<192x7xf32>
// CHECK: stablehlo.slice %[[LONG]] [0:192:3, 0:7] : {{.*}} -> tensor<64x7xf32>
// CHECK: stablehlo.slice %[[LONG]] [2:192:3, 0:7] : {{.*}} -> tensor<64x7xf32>
func.func @every_third(%a: tensor<180x7xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<60x7xf32>, tensor<59x7xf32>) {
  %0 = stablehlo.slice %a [0:180:3, 0:7] : (tensor<180x7xf32>) -> tensor<60x7xf32>
  %1 = stablehlo.slice %a [5:180:3, 0:7] : (tensor<180x7xf32>) -> tensor<59x7xf32>
  return %0, %1 : tensor<60x7xf32>, tensor<59x7xf32>
}

// -----

// Of 100 elements 120 would be too many more.

// CHECK-LABEL: func.func @few
// CHECK-NOT: stablehlo.pad
func.func @few(%a: tensor<100xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) -> tensor<34xf32> {
  %0 = stablehlo.slice %a [0:100:3] : (tensor<100xf32>) -> tensor<34xf32>
  return %0 : tensor<34xf32>
}

// -----

// The gradient, of a result that is split.

// CHECK-LABEL: func.func @with_gaps
// CHECK: stablehlo.pad %{{.*}}, %{{.*}}, low = [1], high = [1], interior = [2] : {{.*}} -> tensor<192xf32>
// CHECK: stablehlo.slice {{.*}} [0:181]
func.func @with_gaps(%a: tensor<60xf32>) -> (tensor<181xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.pad %a, %zero, low = [1], high = [2], interior = [2] : (tensor<60xf32>, tensor<f32>) -> tensor<181xf32>
  return %0 : tensor<181xf32>
}

// -----

// What no layout splits, and blocks that devices divide, stay.

// CHECK-LABEL: func.func @others
// CHECK-NOT: stablehlo.pad
func.func @others(%a: tensor<180x7xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}, %b: tensor<96xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) -> (tensor<60x7xf32>, tensor<32xf32>) {
  %0 = stablehlo.slice %a [0:180:3, 0:7] : (tensor<180x7xf32>) -> tensor<60x7xf32>
  %1 = stablehlo.slice %b [1:96:3] : (tensor<96xf32>) -> tensor<32xf32>
  return %0, %1 : tensor<60x7xf32>, tensor<32xf32>
}
