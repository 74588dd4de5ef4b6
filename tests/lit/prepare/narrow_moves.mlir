// RUN: dtensor-opt %s -p dtensor-import,dtensor-fuse-cuts | filecheck %s

// What moves between shards moves in the narrowest type that it has before or after it.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

func.func @main(
    %u: tensor<8x3xui8> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>},
    %f: tensor<8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>},
    %g: tensor<8x3xf64> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>},
    %b: tensor<8x3xbf16> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>},
    %c: tensor<8x3xcomplex<f32>> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>},
    %long: tensor<80x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>},
    %kernel: tensor<1x1x3x3xf32>,
    %i: tensor<8x3xi32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (
        tensor<8x3xf32>, tensor<8x3xf32>, tensor<1x1x8x3xf32>, tensor<8x3xbf16>, tensor<10x3xf32>,
        tensor<10x3xf32>, tensor<8x3xf32>, tensor<16x3xf32>, tensor<8x3xf32>, tensor<8x3xbf16>, tensor<4x3xbf16>,
        tensor<8x3xf32>, tensor<8x3xf32>) {
  %wide = stablehlo.convert %u : (tensor<8x3xui8>) -> tensor<8x3xf32>

  // A roll, and a reversal of it.
  // CHECK: %[[ROLLED:.*]] = "dtensor.splice"(%arg0)
  // CHECK-SAME: (tensor<8x3xui8>) -> tensor<8x3xui8>
  // CHECK: %[[WIDE:.*]] = stablehlo.convert %[[ROLLED]] : (tensor<8x3xui8>) -> tensor<8x3xf32>
  // CHECK: %[[REVERSED:.*]] = stablehlo.reverse %[[ROLLED]], dims = [0] : tensor<8x3xui8>
  // CHECK: %[[BACK:.*]] = stablehlo.convert %[[REVERSED]] : (tensor<8x3xui8>) -> tensor<8x3xf32>
  %last = stablehlo.slice %wide [7:8, 0:3] : (tensor<8x3xf32>) -> tensor<1x3xf32>
  %rest = stablehlo.slice %wide [0:7, 0:3] : (tensor<8x3xf32>) -> tensor<7x3xf32>
  %0 = stablehlo.concatenate %last, %rest, dim = 0 : (tensor<1x3xf32>, tensor<7x3xf32>) -> tensor<8x3xf32>
  %1 = stablehlo.reverse %0, dims = [0] : tensor<8x3xf32>

  // Windows read what was converted, and not what that was reshaped to.
  // CHECK: %[[IMAGE:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<8x3xui8>) -> tensor<1x1x8x3xui8>
  // CHECK: %[[FLOATS:.*]] = stablehlo.convert %[[IMAGE]]
  // CHECK: stablehlo.convolution(%[[FLOATS]], %arg6)
  %image = stablehlo.broadcast_in_dim %wide, dims = [2, 3] : (tensor<8x3xf32>) -> tensor<1x1x8x3xf32>
  %2 = stablehlo.convolution(%image, %kernel) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x1x8x3xf32>, tensor<1x1x3x3xf32>) -> tensor<1x1x8x3xf32>

  // What is read in a narrower type alone is converted first.
  // CHECK: %[[FIRST:.*]] = stablehlo.convert %arg1 : (tensor<8x3xf32>) -> tensor<8x3xbf16>
  // CHECK: %[[NARROW:.*]] = stablehlo.reverse %[[FIRST]], dims = [0] : tensor<8x3xbf16>
  %turned = stablehlo.reverse %f, dims = [0] : tensor<8x3xf32>
  %3 = stablehlo.convert %turned : (tensor<8x3xf32>) -> tensor<8x3xbf16>

  // A pad with a number that the type has; with one that it has not.
  // CHECK: %[[TWO:.*]] = stablehlo.constant dense<2> : tensor<ui8>
  // CHECK: stablehlo.pad %arg0, %[[TWO]], low = [1, 0], high = [1, 0]
  // CHECK: %[[HALF:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<f32>
  // CHECK: stablehlo.pad %{{.*}}, %[[HALF]], {{.*}} : (tensor<8x3xf32>, tensor<f32>) -> tensor<10x3xf32>
  %two = stablehlo.constant dense<2.0> : tensor<f32>
  %4 = stablehlo.pad %wide, %two, low = [1, 0], high = [1, 0], interior = [0, 0] : (tensor<8x3xf32>, tensor<f32>) -> tensor<10x3xf32>
  %half = stablehlo.constant dense<0.5> : tensor<f32>
  %5 = stablehlo.pad %wide, %half, low = [1, 0], high = [1, 0], interior = [0, 0] : (tensor<8x3xf32>, tensor<f32>) -> tensor<10x3xf32>

  // Not what was wider before, nor parts of two types.
  // CHECK: %[[ROUNDED:.*]] = stablehlo.convert %arg2 : (tensor<8x3xf64>) -> tensor<8x3xf32>
  // CHECK: stablehlo.reverse %[[ROUNDED]], dims = [0] : tensor<8x3xf32>
  // CHECK: stablehlo.concatenate {{.*}} : (tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<16x3xf32>
  %rounded = stablehlo.convert %g : (tensor<8x3xf64>) -> tensor<8x3xf32>
  %6 = stablehlo.reverse %rounded, dims = [0] : tensor<8x3xf32>
  %halves = stablehlo.convert %b : (tensor<8x3xbf16>) -> tensor<8x3xf32>
  %7 = stablehlo.concatenate %wide, %halves, dim = 0 : (tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<16x3xf32>

  // Nor what is read in both types, nor a few rows of many.
  // CHECK: %[[BOTH:.*]] = stablehlo.reverse %{{.*}}, dims = [1] : tensor<8x3xf32>
  // CHECK: stablehlo.convert %[[BOTH]] : (tensor<8x3xf32>) -> tensor<8x3xbf16>
  // CHECK: %[[FEW:.*]] = stablehlo.slice %arg5 [8:12, 0:3] : (tensor<80x3xf32>) -> tensor<4x3xf32>
  // CHECK: stablehlo.convert %[[FEW]] : (tensor<4x3xf32>) -> tensor<4x3xbf16>
  %8 = stablehlo.reverse %f, dims = [1] : tensor<8x3xf32>
  %9 = stablehlo.convert %8 : (tensor<8x3xf32>) -> tensor<8x3xbf16>
  %few = stablehlo.slice %long [8:12, 0:3] : (tensor<80x3xf32>) -> tensor<4x3xf32>
  %10 = stablehlo.convert %few : (tensor<4x3xf32>) -> tensor<4x3xbf16>

  // The real parts of complex numbers are narrower than those.
  // CHECK: %[[REAL:.*]] = stablehlo.convert %arg4 : (tensor<8x3xcomplex<f32>>) -> tensor<8x3xf32>
  // CHECK: stablehlo.reverse %[[REAL]], dims = [0] : tensor<8x3xf32>
  %pairs = stablehlo.reverse %c, dims = [0] : tensor<8x3xcomplex<f32>>
  %11 = stablehlo.convert %pairs : (tensor<8x3xcomplex<f32>>) -> tensor<8x3xf32>

  // Integers of as many bits are not.
  // CHECK: %[[SAME:.*]] = stablehlo.convert %arg7 : (tensor<8x3xi32>) -> tensor<8x3xf32>
  // CHECK: stablehlo.reverse %[[SAME]], dims = [0] : tensor<8x3xf32>
  %same = stablehlo.convert %i : (tensor<8x3xi32>) -> tensor<8x3xf32>
  %12 = stablehlo.reverse %same, dims = [0] : tensor<8x3xf32>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12 : tensor<8x3xf32>, tensor<8x3xf32>, tensor<1x1x8x3xf32>, tensor<8x3xbf16>, tensor<10x3xf32>, tensor<10x3xf32>, tensor<8x3xf32>, tensor<16x3xf32>, tensor<8x3xf32>, tensor<8x3xbf16>, tensor<4x3xbf16>, tensor<8x3xf32>, tensor<8x3xf32>
}
