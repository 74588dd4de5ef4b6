// RUN: dtensor-opt %s --split-input-file --mesh x=2 -p dtensor-import,dtensor-fuse-cuts | filecheck %s

// Columns that nobody reads are cut before the other dimension is transformed, through transposes
// and what is computed of each element.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<2x6x10x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}, {}]>}, %scale: tensor<complex<f32>>) -> tensor<2x2x3x3xcomplex<f32>> {
  // CHECK: %[[GIVEN:.*]] = stablehlo.transpose %arg0, dims = [0, 3, 1, 2]
  %0 = stablehlo.transpose %a, dims = [0, 3, 1, 2] : (tensor<2x6x10x3xf32>) -> tensor<2x3x6x10xf32>
  // CHECK: %[[ROWS:.*]] = stablehlo.fft %[[GIVEN]], type = RFFT, length = [10] : (tensor<2x3x6x10xf32>) -> tensor<2x3x6x6xcomplex<f32>>
  // CHECK: %[[FEW:.*]] = stablehlo.slice %[[ROWS]] [0:2, 0:3, 0:6, 0:3]
  // CHECK: %[[TURNED:.*]] = stablehlo.transpose %[[FEW]], dims = [0, 1, 3, 2]
  // CHECK: stablehlo.fft %[[TURNED]], type = FFT, length = [6] : (tensor<2x3x3x6xcomplex<f32>>) -> tensor<2x3x3x6xcomplex<f32>>
  // CHECK-NOT: stablehlo.fft
  %1 = stablehlo.fft %0, type = RFFT, length = [6, 10] : (tensor<2x3x6x10xf32>) -> tensor<2x3x6x6xcomplex<f32>>
  %2 = stablehlo.broadcast_in_dim %scale, dims = [] : (tensor<complex<f32>>) -> tensor<2x3x6x6xcomplex<f32>>
  %3 = stablehlo.multiply %1, %2 : tensor<2x3x6x6xcomplex<f32>>
  %4 = stablehlo.transpose %3, dims = [0, 2, 3, 1] : (tensor<2x3x6x6xcomplex<f32>>) -> tensor<2x6x6x3xcomplex<f32>>
  %5 = stablehlo.slice %4 [0:2, 0:2, 0:3, 0:3] : (tensor<2x6x6x3xcomplex<f32>>) -> tensor<2x2x3x3xcomplex<f32>>
  return %5 : tensor<2x2x3x3xcomplex<f32>>
}

// -----

// What several slices read of a dimension is cut once; along the dimension that is transformed
// last each cuts for itself.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<8x10xcomplex<f32>> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<2x4xcomplex<f32>>, tensor<3x4xcomplex<f32>>) {
  // CHECK: %[[ROWS:.*]] = stablehlo.fft %arg0, type = FFT, length = [10]
  // CHECK: %[[FEW:.*]] = stablehlo.slice %[[ROWS]] [0:8, 6:10]
  // CHECK-NOT: stablehlo.slice
  // CHECK: stablehlo.fft %{{.*}}, type = FFT, length = [8] : (tensor<4x8xcomplex<f32>>)
  // CHECK-NOT: stablehlo.fft
  %0 = stablehlo.fft %a, type = FFT, length = [8, 10] : (tensor<8x10xcomplex<f32>>) -> tensor<8x10xcomplex<f32>>
  %1 = stablehlo.slice %0 [0:2, 6:10] : (tensor<8x10xcomplex<f32>>) -> tensor<2x4xcomplex<f32>>
  %2 = stablehlo.slice %0 [5:8, 6:10] : (tensor<8x10xcomplex<f32>>) -> tensor<3x4xcomplex<f32>>
  return %1, %2 : tensor<2x4xcomplex<f32>>, tensor<3x4xcomplex<f32>>
}

// -----

// One dimension is transformed before the others are padded; of zeros nothing is computed.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<2x3x2xcomplex<f32>>) -> (tensor<2x8x10xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}) {
  %zero = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>
  // CHECK: %[[LONG:.*]] = stablehlo.pad %arg0, %{{.*}}, low = [0, 1, 0], high = [0, 4, 0], interior = [0, 0, 0] : (tensor<2x3x2xcomplex<f32>>
  // CHECK: %[[LESS:.*]] = stablehlo.negate %[[LONG]]
  // CHECK: %[[TURNED:.*]] = stablehlo.transpose %[[LESS]], dims = [0, 2, 1]
  // CHECK: %[[COLUMNS:.*]] = stablehlo.fft %[[TURNED]], type = IFFT, length = [8] : (tensor<2x2x8xcomplex<f32>>)
  // CHECK: %[[BACK:.*]] = stablehlo.transpose %[[COLUMNS]], dims = [0, 2, 1]
  // CHECK: %[[ROWS:.*]] = stablehlo.pad %[[BACK]], %{{.*}}, low = [0, 0, 0], high = [0, 0, 4], interior = [0, 0, 0]
  // CHECK: stablehlo.fft %[[ROWS]], type = IRFFT, length = [10] : (tensor<2x8x6xcomplex<f32>>) -> tensor<2x8x10xf32>
  %0 = stablehlo.pad %a, %zero, low = [0, 1, 0], high = [0, 4, 4], interior = [0, 0, 0] : (tensor<2x3x2xcomplex<f32>>, tensor<complex<f32>>) -> tensor<2x8x6xcomplex<f32>>
  %1 = stablehlo.negate %0 : tensor<2x8x6xcomplex<f32>>
  %2 = stablehlo.fft %1, type = IRFFT, length = [8, 10] : (tensor<2x8x6xcomplex<f32>>) -> tensor<2x8x10xf32>
  return %2 : tensor<2x8x10xf32>
}

// -----

// Not so where most is read, where anything but slices reads it, where what is around is no zero
// or may be none: it is multiplied by what may be infinite. Nor along the dimension transformed.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<8x10xcomplex<f32>> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %b: tensor<8x10xcomplex<f32>>, %c: tensor<8x3xcomplex<f32>>, %one: tensor<complex<f32>>) -> (tensor<8x6xcomplex<f32>>, tensor<8x3xcomplex<f32>>, tensor<8x10xcomplex<f32>>, tensor<8x10xcomplex<f32>>, tensor<8x10xcomplex<f32>>, tensor<2x10xcomplex<f32>>) {
  %zero = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>
  // CHECK-COUNT-4: length = [8, 10]
  // CHECK: length = [8]
  // CHECK-NOT: stablehlo.fft
  %0 = stablehlo.fft %a, type = FFT, length = [8, 10] : (tensor<8x10xcomplex<f32>>) -> tensor<8x10xcomplex<f32>>
  %1 = stablehlo.slice %0 [0:8, 0:6] : (tensor<8x10xcomplex<f32>>) -> tensor<8x6xcomplex<f32>>
  %2 = stablehlo.add %a, %b : tensor<8x10xcomplex<f32>>
  %3 = stablehlo.fft %2, type = FFT, length = [8, 10] : (tensor<8x10xcomplex<f32>>) -> tensor<8x10xcomplex<f32>>
  %4 = stablehlo.slice %3 [0:8, 0:3] : (tensor<8x10xcomplex<f32>>) -> tensor<8x3xcomplex<f32>>
  %5 = stablehlo.pad %c, %one, low = [0, 0], high = [0, 7], interior = [0, 0] : (tensor<8x3xcomplex<f32>>, tensor<complex<f32>>) -> tensor<8x10xcomplex<f32>>
  %6 = stablehlo.multiply %5, %a : tensor<8x10xcomplex<f32>>
  %7 = stablehlo.fft %6, type = IFFT, length = [8, 10] : (tensor<8x10xcomplex<f32>>) -> tensor<8x10xcomplex<f32>>
  %8 = stablehlo.pad %c, %zero, low = [0, 0], high = [0, 7], interior = [0, 0] : (tensor<8x3xcomplex<f32>>, tensor<complex<f32>>) -> tensor<8x10xcomplex<f32>>
  %9 = stablehlo.multiply %8, %a : tensor<8x10xcomplex<f32>>
  %10 = stablehlo.fft %9, type = IFFT, length = [8, 10] : (tensor<8x10xcomplex<f32>>) -> tensor<8x10xcomplex<f32>>
  %11 = stablehlo.transpose %a, dims = [1, 0] : (tensor<8x10xcomplex<f32>>) -> tensor<10x8xcomplex<f32>>
  %12 = stablehlo.fft %11, type = FFT, length = [8] : (tensor<10x8xcomplex<f32>>) -> tensor<10x8xcomplex<f32>>
  %13 = stablehlo.transpose %12, dims = [1, 0] : (tensor<10x8xcomplex<f32>>) -> tensor<8x10xcomplex<f32>>
  %14 = stablehlo.slice %13 [0:2, 0:10] : (tensor<8x10xcomplex<f32>>) -> tensor<2x10xcomplex<f32>>
  return %1, %4, %3, %7, %10, %14 : tensor<8x6xcomplex<f32>>, tensor<8x3xcomplex<f32>>, tensor<8x10xcomplex<f32>>, tensor<8x10xcomplex<f32>>, tensor<8x10xcomplex<f32>>, tensor<2x10xcomplex<f32>>
}

// -----

// Zeros stay zeros, of whatever sign, where they are multiplied or divided by known numbers, as the
// gradient of a transform of real numbers has it; and where one window of them is written.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<8x2xcomplex<f32>>, %at: tensor<6xcomplex<f32>>) -> (tensor<8x10xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, tensor<8x10xf32>) {
  %zero = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>
  %sizes = stablehlo.constant dense<(8.0, 0.0)> : tensor<2xcomplex<f32>>
  %one = stablehlo.constant dense<(1.0, 0.0)> : tensor<complex<f32>>
  %c2 = stablehlo.constant dense<2> : tensor<i32>
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  // CHECK: stablehlo.fft %{{.*}}, type = IFFT, length = [8] : (tensor<2x8xcomplex<f32>>)
  // CHECK: stablehlo.fft %{{.*}}, type = IRFFT, length = [10]
  %0 = stablehlo.reduce(%sizes init: %one) applies stablehlo.multiply across dimensions = [0] : (tensor<2xcomplex<f32>>, tensor<complex<f32>>) -> tensor<complex<f32>>
  %1 = stablehlo.sqrt %0 : tensor<complex<f32>>
  %2 = stablehlo.divide %one, %1 : tensor<complex<f32>>
  %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<complex<f32>>) -> tensor<8x6xcomplex<f32>>
  %4 = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<complex<f32>>) -> tensor<8x6xcomplex<f32>>
  %5 = stablehlo.dynamic_update_slice %4, %a, %c0, %c2 : (tensor<8x6xcomplex<f32>>, tensor<8x2xcomplex<f32>>, tensor<i32>, tensor<i32>) -> tensor<8x6xcomplex<f32>>
  %6 = stablehlo.multiply %5, %3 : tensor<8x6xcomplex<f32>>
  %7 = stablehlo.divide %6, %3 : tensor<8x6xcomplex<f32>>
  %8 = stablehlo.fft %7, type = IRFFT, length = [8, 10] : (tensor<8x6xcomplex<f32>>) -> tensor<8x10xf32>
  // Not where they are divided by what may be zero.
  // CHECK: stablehlo.fft %{{.*}}, type = IRFFT, length = [8, 10]
  %9 = stablehlo.broadcast_in_dim %at, dims = [1] : (tensor<6xcomplex<f32>>) -> tensor<8x6xcomplex<f32>>
  %10 = stablehlo.divide %5, %9 : tensor<8x6xcomplex<f32>>
  %11 = stablehlo.fft %10, type = IRFFT, length = [8, 10] : (tensor<8x6xcomplex<f32>>) -> tensor<8x10xf32>
  return %8, %11 : tensor<8x10xf32>, tensor<8x10xf32>
}

// -----

// Slices of what was written over at a known place are slices of the transform where it was not,
// as the gradient of several updates has them; not where the place is not known.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<8x10xcomplex<f32>> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %b: tensor<3x2xcomplex<f32>>, %at: tensor<i32>) -> (tensor<3x2xcomplex<f32>>, tensor<8x4xcomplex<f32>>, tensor<8x4xcomplex<f32>>) {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c5 = stablehlo.constant dense<5> : tensor<i32>
  // CHECK: %[[ROWS:.*]] = stablehlo.fft %arg0, type = FFT, length = [10]
  // CHECK: stablehlo.slice %[[ROWS]] [0:8, 0:2]
  // CHECK: stablehlo.fft %{{.*}}, type = FFT, length = [8] : (tensor<2x8xcomplex<f32>>)
  // CHECK: stablehlo.dynamic_update_slice %{{.*}}, %arg1, %{{.*}}, %{{.*}} : (tensor<8x2xcomplex<f32>>, tensor<3x2xcomplex<f32>>, tensor<i32>, tensor<i32>) -> tensor<8x2xcomplex<f32>>
  %0 = stablehlo.fft %a, type = FFT, length = [8, 10] : (tensor<8x10xcomplex<f32>>) -> tensor<8x10xcomplex<f32>>
  %1 = stablehlo.slice %0 [5:8, 0:2] : (tensor<8x10xcomplex<f32>>) -> tensor<3x2xcomplex<f32>>
  %2 = stablehlo.dynamic_update_slice %0, %b, %c5, %c0 : (tensor<8x10xcomplex<f32>>, tensor<3x2xcomplex<f32>>, tensor<i32>, tensor<i32>) -> tensor<8x10xcomplex<f32>>
  %3 = stablehlo.slice %2 [0:8, 0:2] : (tensor<8x10xcomplex<f32>>) -> tensor<8x2xcomplex<f32>>
  %4 = stablehlo.concatenate %3, %3, dim = 1 : (tensor<8x2xcomplex<f32>>, tensor<8x2xcomplex<f32>>) -> tensor<8x4xcomplex<f32>>
  // CHECK: length = [8, 10]
  %5 = stablehlo.add %a, %a : tensor<8x10xcomplex<f32>>
  %6 = stablehlo.fft %5, type = FFT, length = [8, 10] : (tensor<8x10xcomplex<f32>>) -> tensor<8x10xcomplex<f32>>
  %7 = stablehlo.dynamic_update_slice %6, %b, %at, %c0 : (tensor<8x10xcomplex<f32>>, tensor<3x2xcomplex<f32>>, tensor<i32>, tensor<i32>) -> tensor<8x10xcomplex<f32>>
  %8 = stablehlo.slice %7 [0:8, 0:4] : (tensor<8x10xcomplex<f32>>) -> tensor<8x4xcomplex<f32>>
  return %1, %4, %8 : tensor<3x2xcomplex<f32>>, tensor<8x4xcomplex<f32>>, tensor<8x4xcomplex<f32>>
}
