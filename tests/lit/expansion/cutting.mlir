// RUN: dtensor-opt %s --dtensor-expand | filecheck %s

// Starts, limits and paddings of split dimensions are in elements of the shard.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// The second third of 18 columns, each third split in two.
// CHECK-LABEL: func.func @slice
func.func @slice(%a: tensor<4x18xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {3, "x"}]>})
    -> (tensor<4x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {"x"}]>}) {
  // CHECK-NEXT: stablehlo.slice %arg0 [0:1, 3:6] : (tensor<1x9xf32>) -> tensor<1x3xf32>
  %0 = stablehlo.slice %a [0:4, 6:12] {dtensor.results = [#dtensor.layout<@mesh, [{"y"}, {"x"}]>]} : (tensor<4x18xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// Every second element, from the second on.
// CHECK-LABEL: func.func @strided
func.func @strided(%a: tensor<24xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>})
    -> (tensor<12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>}) {
  // CHECK-NEXT: stablehlo.slice %arg0 [1:6:2] : (tensor<6xf32>) -> tensor<3xf32>
  %0 = stablehlo.slice %a [1:24:2] {dtensor.results = [#dtensor.layout<@mesh, [{"y"}]>]} : (tensor<24xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// A dimension that is whole keeps its numbers.
// CHECK-LABEL: func.func @whole
func.func @whole(%a: tensor<4x7xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
    -> (tensor<4x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // CHECK-NEXT: stablehlo.slice %arg0 [0:2, 1:7] : (tensor<2x7xf32>) -> tensor<2x6xf32>
  %0 = stablehlo.slice %a [0:4, 1:7] {dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<4x7xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// The gradient of the slice of a third.
// CHECK-LABEL: func.func @pad
func.func @pad(%a: tensor<4x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}, %v: tensor<f32> {dtensor.layout = #dtensor.layout<@mesh, []>})
    -> (tensor<5x18xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {3, "x"}]>}) {
  // CHECK-NEXT: stablehlo.pad %arg0, %arg1, low = [1, 3], high = [0, 3], interior = [0, 0] : (tensor<4x3xf32>, tensor<f32>) -> tensor<5x9xf32>
  %0 = stablehlo.pad %a, %v, low = [1, 6], high = [0, 6], interior = [0, 0] {dtensor.results = [#dtensor.layout<@mesh, [{}, {3, "x"}]>]} : (tensor<4x6xf32>, tensor<f32>) -> tensor<5x18xf32>
  return %0 : tensor<5x18xf32>
}

// Blocks of both operands stand side by side in every shard; only types change.
// CHECK-LABEL: func.func @concatenate
func.func @concatenate(%a: tensor<4x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}, %b: tensor<4x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {2, "x"}]>})
    -> (tensor<4x18xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {3, "x"}]>}) {
  // CHECK-NEXT: stablehlo.concatenate %arg0, %arg1, dim = 1 : (tensor<4x3xf32>, tensor<4x6xf32>) -> tensor<4x9xf32>
  %0 = stablehlo.concatenate %a, %b, dim = 1 {dtensor.results = [#dtensor.layout<@mesh, [{}, {3, "x"}]>]} : (tensor<4x6xf32>, tensor<4x12xf32>) -> tensor<4x18xf32>
  return %0 : tensor<4x18xf32>
}

// What makes a padded value longer still is fetched of the next shard, which has it at its start.
// CHECK-LABEL: func.func @fits
func.func @fits(%a: tensor<14x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %v: tensor<f32> {dtensor.layout = #dtensor.layout<@mesh, []>})
    -> (tensor<16x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // CHECK: "dtensor.halo_exchange"(%arg0) {{.*}}high = 1{{.*}} : (tensor<7x3xf32>) -> tensor<8x3xf32>
  // CHECK-NOT: dtensor.fits
  // CHECK: return %{{.*}} : tensor<8x3xf32>
  %0 = stablehlo.pad %a, %v, low = [0, 0], high = [2, 0], interior = [0, 0] {dtensor.fits, dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<14x3xf32>, tensor<f32>) -> tensor<16x3xf32>
  return %0 : tensor<16x3xf32>
}
