// RUN: dtensor-opt %s -p dtensor-join-transforms | filecheck %s

// Dimension after dimension from the last one, which was of real numbers.
// CHECK-LABEL: func.func @forwards
func.func @forwards(%a: tensor<2x4x6x10xf32>) -> tensor<2x4x6x6xcomplex<f32>> {
  // CHECK: %[[ALL:.*]] = stablehlo.fft %arg0, type = RFFT, length = [4, 6, 10]
  // CHECK-NEXT: return %[[ALL]]
  %0 = stablehlo.fft %a, type = RFFT, length = [10] : (tensor<2x4x6x10xf32>) -> tensor<2x4x6x6xcomplex<f32>>
  %1 = stablehlo.transpose %0, dims = [0, 1, 3, 2] : (tensor<2x4x6x6xcomplex<f32>>) -> tensor<2x4x6x6xcomplex<f32>>
  %2 = stablehlo.fft %1, type = FFT, length = [6] : (tensor<2x4x6x6xcomplex<f32>>) -> tensor<2x4x6x6xcomplex<f32>>
  %3 = stablehlo.transpose %2, dims = [0, 1, 3, 2] : (tensor<2x4x6x6xcomplex<f32>>) -> tensor<2x4x6x6xcomplex<f32>>
  %4 = stablehlo.transpose %3, dims = [0, 3, 2, 1] : (tensor<2x4x6x6xcomplex<f32>>) -> tensor<2x6x6x4xcomplex<f32>>
  %5 = stablehlo.fft %4, type = FFT, length = [4] : (tensor<2x6x6x4xcomplex<f32>>) -> tensor<2x6x6x4xcomplex<f32>>
  %6 = stablehlo.transpose %5, dims = [0, 3, 2, 1] : (tensor<2x6x6x4xcomplex<f32>>) -> tensor<2x4x6x6xcomplex<f32>>
  return %6 : tensor<2x4x6x6xcomplex<f32>>
}

// Back to the last one, whose result is of real numbers.
// CHECK-LABEL: func.func @back
func.func @back(%a: tensor<4x6x6xcomplex<f32>>) -> tensor<4x6x10xf32> {
  // CHECK: %[[ALL:.*]] = stablehlo.fft %arg0, type = IRFFT, length = [4, 6, 10]
  // CHECK-NEXT: return %[[ALL]]
  %0 = stablehlo.transpose %a, dims = [2, 1, 0] : (tensor<4x6x6xcomplex<f32>>) -> tensor<6x6x4xcomplex<f32>>
  %1 = stablehlo.fft %0, type = IFFT, length = [4] : (tensor<6x6x4xcomplex<f32>>) -> tensor<6x6x4xcomplex<f32>>
  %2 = stablehlo.transpose %1, dims = [2, 1, 0] : (tensor<6x6x4xcomplex<f32>>) -> tensor<4x6x6xcomplex<f32>>
  %3 = stablehlo.transpose %2, dims = [0, 2, 1] : (tensor<4x6x6xcomplex<f32>>) -> tensor<4x6x6xcomplex<f32>>
  %4 = stablehlo.fft %3, type = IFFT, length = [6] : (tensor<4x6x6xcomplex<f32>>) -> tensor<4x6x6xcomplex<f32>>
  %5 = stablehlo.transpose %4, dims = [0, 2, 1] : (tensor<4x6x6xcomplex<f32>>) -> tensor<4x6x6xcomplex<f32>>
  %6 = stablehlo.fft %5, type = IRFFT, length = [10] : (tensor<4x6x6xcomplex<f32>>) -> tensor<4x6x10xf32>
  return %6 : tensor<4x6x10xf32>
}

// Halves of rows that somebody else reads stay; so do dimensions that are no neighbours, and
// transforms of which one goes forwards and one back.
// CHECK-LABEL: func.func @apart
func.func @apart(%a: tensor<4x6x10xf32>, %b: tensor<4x6x8xcomplex<f32>>) -> (tensor<4x6x6xcomplex<f32>>, tensor<4x6x6xcomplex<f32>>, tensor<4x6x8xcomplex<f32>>, tensor<4x6x8xcomplex<f32>>) {
  // CHECK: stablehlo.fft %{{.*}}, type = RFFT, length = [10]
  // CHECK: stablehlo.fft %{{.*}}, type = FFT, length = [6]
  %0 = stablehlo.fft %a, type = RFFT, length = [10] : (tensor<4x6x10xf32>) -> tensor<4x6x6xcomplex<f32>>
  %1 = stablehlo.transpose %0, dims = [0, 2, 1] : (tensor<4x6x6xcomplex<f32>>) -> tensor<4x6x6xcomplex<f32>>
  %2 = stablehlo.fft %1, type = FFT, length = [6] : (tensor<4x6x6xcomplex<f32>>) -> tensor<4x6x6xcomplex<f32>>
  %3 = stablehlo.transpose %2, dims = [0, 2, 1] : (tensor<4x6x6xcomplex<f32>>) -> tensor<4x6x6xcomplex<f32>>
  // CHECK: stablehlo.fft %{{.*}}, type = FFT, length = [8]
  // CHECK: stablehlo.fft %{{.*}}, type = FFT, length = [4]
  %4 = stablehlo.fft %b, type = FFT, length = [8] : (tensor<4x6x8xcomplex<f32>>) -> tensor<4x6x8xcomplex<f32>>
  %5 = stablehlo.transpose %4, dims = [2, 1, 0] : (tensor<4x6x8xcomplex<f32>>) -> tensor<8x6x4xcomplex<f32>>
  %6 = stablehlo.fft %5, type = FFT, length = [4] : (tensor<8x6x4xcomplex<f32>>) -> tensor<8x6x4xcomplex<f32>>
  %7 = stablehlo.transpose %6, dims = [2, 1, 0] : (tensor<8x6x4xcomplex<f32>>) -> tensor<4x6x8xcomplex<f32>>
  // CHECK: stablehlo.fft %{{.*}}, type = IFFT, length = [6]
  // CHECK: stablehlo.fft %{{.*}}, type = FFT, length = [8]
  %8 = stablehlo.transpose %b, dims = [0, 2, 1] : (tensor<4x6x8xcomplex<f32>>) -> tensor<4x8x6xcomplex<f32>>
  %9 = stablehlo.fft %8, type = IFFT, length = [6] : (tensor<4x8x6xcomplex<f32>>) -> tensor<4x8x6xcomplex<f32>>
  %10 = stablehlo.transpose %9, dims = [0, 2, 1] : (tensor<4x8x6xcomplex<f32>>) -> tensor<4x6x8xcomplex<f32>>
  %11 = stablehlo.fft %10, type = FFT, length = [8] : (tensor<4x6x8xcomplex<f32>>) -> tensor<4x6x8xcomplex<f32>>
  return %0, %3, %7, %11 : tensor<4x6x6xcomplex<f32>>, tensor<4x6x6xcomplex<f32>>, tensor<4x6x8xcomplex<f32>>, tensor<4x6x8xcomplex<f32>>
}
