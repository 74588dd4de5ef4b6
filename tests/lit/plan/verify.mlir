// RUN: dtensor-opt %s -p dtensor-import,dtensor-propagate,dtensor-verify-plan | filecheck %s --check-prefix=PLAN
// RUN: dtensor-opt %s -p dtensor-import,dtensor-propagate | dtensor-opt -p dtensor-verify-plan,dtensor-insert-relayouts | dtensor-opt -p dtensor-verify-plan | filecheck %s

// A plan is verified where operations say what they want to read, and where relayouts stand; as it
// comes from propagation, or as text. Nothing changes.

module {
  "dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

  // A carried value in parts, a branch, a reshape that an axis crosses in two parts.
  // PLAN: stablehlo.dot_general {{.*}}dtensor.operands{{.*}}dtensor.results{{.*}}partial = {sum: "y"}
  // CHECK: stablehlo.dot_general {{.*}}dtensor.results{{.*}}partial = {sum: "y"}
  // CHECK: "dtensor.relayout"
  func.func @main(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>},
                  %b: tensor<12x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>},
                  %p: tensor<i1>) -> tensor<2x4x6xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x12xf32>, tensor<12x6xf32>) -> tensor<8x6xf32>
    %1 = stablehlo.add %0, %0 : tensor<8x6xf32>
    %2 = "stablehlo.if"(%p) ({
      %t = stablehlo.tanh %1 : tensor<8x6xf32>
      stablehlo.return %t : tensor<8x6xf32>
    }, {
      stablehlo.return %1 : tensor<8x6xf32>
    }) : (tensor<i1>) -> tensor<8x6xf32>
    %3 = "dtensor.relayout"(%2) {layout = #dtensor.layout<@mesh, [{"y", "x"}, {}]>} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %4 = stablehlo.reshape %3 : (tensor<8x6xf32>) -> tensor<2x4x6xf32>
    return %4 : tensor<2x4x6xf32>
  }
}
