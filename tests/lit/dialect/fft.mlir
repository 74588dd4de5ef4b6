// RUN: dtensor-opt %s | dtensor-opt | filecheck %s

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<3x12xf32>) -> tensor<3x8xcomplex<f32>> {
  // CHECK: "dtensor.fft"(%{{.*}}) {fft_length = array<i64: 10>, fft_type = #stablehlo<fft_type RFFT>} : (tensor<3x12xf32>) -> tensor<3x8xcomplex<f32>>
  %0 = "dtensor.fft"(%a) {fft_length = array<i64: 10>, fft_type = #stablehlo<fft_type RFFT>} : (tensor<3x12xf32>) -> tensor<3x8xcomplex<f32>>
  return %0 : tensor<3x8xcomplex<f32>>
}
