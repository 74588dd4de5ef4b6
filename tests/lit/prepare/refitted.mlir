// RUN: dtensor-opt %s --mesh x=2,y=4 --dtensor-import --dtensor-pad-uneven=planned=false | filecheck %s
// RUN: dtensor-opt %s --mesh x=2,y=4 --dtensor-import --dtensor-pad-uneven | filecheck %s --check-prefix=PLANNED

// What would have to be longer than its layout says at the border reads the true size; or becomes
// longer as the program begins, where a plan takes less.

// CHECK-LABEL: func.func @too_long
// PLANNED-LABEL: func.func @too_long
func.func @too_long(%a: tensor<6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>}, %v: tensor<f32>) -> tensor<9xf32> {
  // CHECK: %[[TRUE:.*]] = stablehlo.slice %arg0 [0:6]
  // CHECK: stablehlo.pad %[[TRUE]], %arg1, low = [0], high = [3], interior = [0] : (tensor<6xf32>, tensor<f32>) -> tensor<9xf32>
  // PLANNED: %[[LONG:.*]] = stablehlo.pad %arg0, %{{.*}}, low = [0], high = [4], interior = [0] {dtensor.fits} : (tensor<8xf32>, tensor<f32>) -> tensor<12xf32>
  // PLANNED: stablehlo.pad %{{.*}}, %arg1, low = [0], high = [0], interior = [0] : (tensor<12xf32>, tensor<f32>) -> tensor<12xf32>
  %0 = stablehlo.pad %a, %v, low = [0], high = [3], interior = [0] : (tensor<6xf32>, tensor<f32>) -> tensor<9xf32>
  return %0 : tensor<9xf32>
}
