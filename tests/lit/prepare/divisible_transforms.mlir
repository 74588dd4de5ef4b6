// RUN: dtensor-opt %s --mesh x=4 -p dtensor-import,dtensor-split-transforms | filecheck %s

// While rows are transformed their axis goes to columns: of 17 there are 20 then, which 4 divide.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<12x32xf32>, %b: tensor<16x9xcomplex<f32>>, %c: tensor<12x2xcomplex<f32>>) -> (tensor<12x17xcomplex<f32>>, tensor<16x9xcomplex<f32>>, tensor<12x2xcomplex<f32>>) {
  // CHECK: %[[ROWS:.*]] = stablehlo.fft %arg0, type = RFFT, length = [32]
  // CHECK: %[[PADDED:.*]] = stablehlo.pad %[[ROWS]], %{{.*}}, low = [0, 0], high = [0, 3], interior = [0, 0]
  // CHECK: %[[TURNED:.*]] = stablehlo.transpose %[[PADDED]], dims = [1, 0]
  // CHECK: %[[COLUMNS:.*]] = stablehlo.fft %[[TURNED]], type = FFT, length = [12] : (tensor<20x12xcomplex<f32>>)
  // CHECK: %[[BACK:.*]] = stablehlo.transpose %[[COLUMNS]], dims = [1, 0]
  // CHECK: stablehlo.slice %[[BACK]] [0:12, 0:17]
  %0 = stablehlo.fft %a, type = RFFT, length = [12, 32] : (tensor<12x32xf32>) -> tensor<12x17xcomplex<f32>>
  // Where padding would be more than little there is none.
  // CHECK-NOT: stablehlo.pad
  %1 = stablehlo.fft %b, type = FFT, length = [16, 9] : (tensor<16x9xcomplex<f32>>) -> tensor<16x9xcomplex<f32>>
  %2 = stablehlo.fft %c, type = FFT, length = [12, 2] : (tensor<12x2xcomplex<f32>>) -> tensor<12x2xcomplex<f32>>
  return %0, %1, %2 : tensor<12x17xcomplex<f32>>, tensor<16x9xcomplex<f32>>, tensor<12x2xcomplex<f32>>
}
