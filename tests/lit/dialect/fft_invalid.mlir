// RUN: dtensor-opt %s --verify-diagnostics

func.func @main(%a: tensor<3x12xcomplex<f32>>) {
  // expected-error @below {{fft_length is [3, 12]; give the length of the one dimension that is transformed}}
  %0 = "dtensor.fft"(%a) {fft_length = array<i64: 3, 12>, fft_type = #stablehlo<fft_type FFT>} : (tensor<3x12xcomplex<f32>>) -> tensor<3x12xcomplex<f32>>
  // expected-error @below {{operand is tensor<3x12xcomplex<f32>>, but that of FFT of length 14 has 14 elements in its last dimension; give it as many, or more}}
  %1 = "dtensor.fft"(%a) {fft_length = array<i64: 14>, fft_type = #stablehlo<fft_type FFT>} : (tensor<3x12xcomplex<f32>>) -> tensor<3x14xcomplex<f32>>
  // expected-error @below {{result is tensor<3x7xf32>, but that of IRFFT of length 8 has 8 elements in its last dimension; give it as many, or more}}
  %2 = "dtensor.fft"(%a) {fft_length = array<i64: 8>, fft_type = #stablehlo<fft_type IRFFT>} : (tensor<3x12xcomplex<f32>>) -> tensor<3x7xf32>
  // expected-error @below {{result is tensor<2x12xcomplex<f32>>, but rows of tensor<3x12xcomplex<f32>> are transformed; give it as many rows}}
  %3 = "dtensor.fft"(%a) {fft_length = array<i64: 12>, fft_type = #stablehlo<fft_type FFT>} : (tensor<3x12xcomplex<f32>>) -> tensor<2x12xcomplex<f32>>
  // expected-error @below {{attribute 'fft_type' must be a type such as #stablehlo<fft_type FFT>, found "DCT"}}
  %4 = "dtensor.fft"(%a) {fft_length = array<i64: 12>, fft_type = "DCT"} : (tensor<3x12xcomplex<f32>>) -> tensor<3x12xcomplex<f32>>
  return
}
