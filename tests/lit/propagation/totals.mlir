// RUN: dtensor-opt %s --mesh x=2,y=4 -p dtensor-import,dtensor-propagate | filecheck %s

// A dimension that is reduced by any body stays split; shards exchange totals, or where they are few
// or do not divide, gather them.

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<64x512xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {"x"}]>}, %i: tensor<f32>) -> (tensor<512xf32>, tensor<64xf32>, tensor<f32>) {
  // CHECK: dtensor.algorithm = "exchange_totals"{{.*}}dtensor.results = [#dtensor.layout<@mesh, [{"x"}]>]
  %0 = stablehlo.reduce(%a init: %i) across dimensions = [0] : (tensor<64x512xf32>, tensor<f32>) -> tensor<512xf32>
    reducer(%x: tensor<f32>, %y: tensor<f32>) {
    %2 = stablehlo.multiply %x, %y : tensor<f32>
    %3 = stablehlo.add %2, %x : tensor<f32>
    %4 = stablehlo.add %3, %y : tensor<f32>
    stablehlo.return %4 : tensor<f32>
  }
  // CHECK: dtensor.algorithm = "gather_totals"{{.*}}dtensor.results = [#dtensor.layout<@mesh, [{"y"}]>]
  %1 = stablehlo.reduce(%a init: %i) across dimensions = [1] : (tensor<64x512xf32>, tensor<f32>) -> tensor<64xf32>
    reducer(%x: tensor<f32>, %y: tensor<f32>) {
    %2 = stablehlo.multiply %x, %y : tensor<f32>
    %3 = stablehlo.add %2, %x : tensor<f32>
    %4 = stablehlo.add %3, %y : tensor<f32>
    stablehlo.return %4 : tensor<f32>
  }
  // CHECK: dtensor.algorithm = "gather_totals"{{.*}}dtensor.results = [#dtensor.layout<@mesh, []>]
  %5 = stablehlo.reduce(%a init: %i) across dimensions = [0, 1] : (tensor<64x512xf32>, tensor<f32>) -> tensor<f32>
    reducer(%x: tensor<f32>, %y: tensor<f32>) {
    %2 = stablehlo.multiply %x, %y : tensor<f32>
    %3 = stablehlo.add %2, %x : tensor<f32>
    %4 = stablehlo.add %3, %y : tensor<f32>
    stablehlo.return %4 : tensor<f32>
  }
  return %0, %1, %5 : tensor<512xf32>, tensor<64xf32>, tensor<f32>
}
