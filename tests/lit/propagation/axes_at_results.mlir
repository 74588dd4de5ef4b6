// RUN: dtensor-opt %s --mesh x=2,y=3,z=2 --dtensor-import --dtensor-propagate | filecheck %s

// A result left free: the axes that come together there take places that do not overlap.
// CHECK-LABEL: func.func @joined_and_turned
func.func @joined_and_turned(
    %a: tensor<48x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x", "y"}, {"z"}]>}) -> tensor<48x96xf32> {
  // CHECK: stablehlo.transpose {{.*}} {dtensor.algorithm = "local", dtensor.operands =
  %0 = stablehlo.concatenate %a, %a, dim = 0 : (tensor<48x48xf32>, tensor<48x48xf32>) -> tensor<96x48xf32>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<96x48xf32>) -> tensor<48x96xf32>
  return %1 : tensor<48x96xf32>
}
