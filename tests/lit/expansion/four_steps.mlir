// RUN: dtensor-opt %s --dtensor-expand | filecheck %s

// A split row is transformed over the shards, turned, and transformed in the shards.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<3x12xcomplex<f32>> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>})
    -> (tensor<3x12xcomplex<f32>> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}) {
  // CHECK: "dtensor.all_to_all"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["x"]>, concat_dim = 1 : i64, split_dim = 2 : i64} : (tensor<3x1x2x3xcomplex<f32>>) -> tensor<3x2x1x3xcomplex<f32>>
  // CHECK: %[[OVER:.*]] = stablehlo.fft %{{.*}}, type = FFT, length = [2] : (tensor<3x3x2xcomplex<f32>>)
  // CHECK: %[[COS:.*]] = stablehlo.cosine %[[ANGLE:.*]] : tensor<3x2xf32>
  // CHECK: %[[SIN:.*]] = stablehlo.sine %[[ANGLE]]
  // CHECK: %[[TURNS:.*]] = stablehlo.complex %[[COS]], %[[SIN]]
  // CHECK: %[[ALL:.*]] = stablehlo.broadcast_in_dim %[[TURNS]], dims = [1, 2]
  // CHECK: stablehlo.multiply %[[OVER]], %[[ALL]]
  // CHECK: "dtensor.all_to_all"
  // CHECK: stablehlo.fft %{{.*}}, type = FFT, length = [6] : (tensor<3x1x6xcomplex<f32>>)
  // CHECK: "dtensor.all_to_all"
  // CHECK-NOT: "dtensor.
  %0 = stablehlo.fft %a, type = FFT, length = [12] {dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}]>]} : (tensor<3x12xcomplex<f32>>) -> tensor<3x12xcomplex<f32>>
  return %0 : tensor<3x12xcomplex<f32>>
}
