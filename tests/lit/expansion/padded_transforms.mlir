// RUN: dtensor-opt %s --dtensor-expand | filecheck %s

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// Padding is cut off whole rows, and put behind their transforms.

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}, %b: tensor<12xcomplex<f32>> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>})
    -> (tensor<8xcomplex<f32>> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}, tensor<12xcomplex<f32>> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) {
  // CHECK: %[[TRUE:.*]] = stablehlo.slice %arg0 [0:10]
  // CHECK: %[[HALF:.*]] = stablehlo.fft %[[TRUE]], type = RFFT, length = [10] : (tensor<10xf32>) -> tensor<6xcomplex<f32>>
  // CHECK: stablehlo.pad %[[HALF]], %{{.*}}, low = [0], high = [2], interior = [0]
  %0 = "dtensor.fft"(%a) {fft_length = array<i64: 10>, fft_type = #stablehlo<fft_type RFFT>, dtensor.results = [#dtensor.layout<@mesh, [{}]>]} : (tensor<12xf32>) -> tensor<8xcomplex<f32>>

  // Of split rows it is in a row that is dropped. Two shards of three have numbers of a row of five.
  // CHECK: stablehlo.dynamic_update_slice %{{.*}}, %arg1
  // CHECK: "dtensor.all_to_all"
  // CHECK-COUNT-2: "stablehlo.gather"
  // CHECK: stablehlo.add
  // CHECK: stablehlo.fft {{.*}} length = [2]
  // CHECK: "dtensor.all_to_all"
  // CHECK: stablehlo.fft {{.*}} length = [5]
  // CHECK: "dtensor.all_to_all"
  // CHECK: %[[SHARD:.*]] = stablehlo.dynamic_slice {{.*}}sizes = [3]
  // CHECK: stablehlo.select %{{.*}}, %[[SHARD]], %{{.*}} : tensor<3xi1>
  %1 = "dtensor.fft"(%b) {fft_length = array<i64: 10>, fft_type = #stablehlo<fft_type FFT>, dtensor.results = [#dtensor.layout<@mesh, [{"x"}]>]} : (tensor<12xcomplex<f32>>) -> tensor<12xcomplex<f32>>
  return %0, %1 : tensor<8xcomplex<f32>>, tensor<12xcomplex<f32>>
}
