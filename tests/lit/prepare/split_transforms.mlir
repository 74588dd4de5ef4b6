// RUN: dtensor-opt %s --mesh x=4 -p dtensor-import,dtensor-split-transforms | filecheck %s

// Of one array each dimension is transformed by itself; what was real begins with the last one.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<6x10xf32>, %b: tensor<6x6xcomplex<f32>>, %c: tensor<4x6x10xf32>) -> (tensor<6x6xcomplex<f32>>, tensor<6x10xf32>, tensor<4x6x6xcomplex<f32>>) {
  // CHECK: %[[ROWS:.*]] = stablehlo.fft %arg0, type = RFFT, length = [10] : (tensor<6x10xf32>) -> tensor<6x6xcomplex<f32>>
  // CHECK: %[[TURNED:.*]] = stablehlo.transpose %[[ROWS]], dims = [1, 0]
  // CHECK: %[[COLUMNS:.*]] = stablehlo.fft %[[TURNED]], type = FFT, length = [6]
  // CHECK: stablehlo.transpose %[[COLUMNS]], dims = [1, 0]
  %0 = stablehlo.fft %a, type = RFFT, length = [6, 10] : (tensor<6x10xf32>) -> tensor<6x6xcomplex<f32>>
  // CHECK: stablehlo.fft %{{.*}}, type = IFFT, length = [6]
  // CHECK: stablehlo.fft %{{.*}}, type = IRFFT, length = [10] : (tensor<6x6xcomplex<f32>>) -> tensor<6x10xf32>
  %1 = stablehlo.fft %b, type = IRFFT, length = [6, 10] : (tensor<6x6xcomplex<f32>>) -> tensor<6x10xf32>
  // As many arrays as devices are divided as they stand.
  // CHECK: stablehlo.fft %arg2, type = RFFT, length = [6, 10]
  %2 = stablehlo.fft %c, type = RFFT, length = [6, 10] : (tensor<4x6x10xf32>) -> tensor<4x6x6xcomplex<f32>>
  return %0, %1, %2 : tensor<6x6xcomplex<f32>>, tensor<6x10xf32>, tensor<4x6x6xcomplex<f32>>
}
