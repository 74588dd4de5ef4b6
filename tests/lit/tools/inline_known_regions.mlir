// C++ `inline` would end the process at a region of an operation that passes after it make.

// RUN: dtensor-opt %s --dtensor-spmd --verify-diagnostics
// RUN: dtensor-opt %s --dtensor-expand --dtensor-lower | filecheck %s

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=3]>} : () -> ()

// CHECK-LABEL: func.func @main(%arg0: tensor<5x2xf32>)
func.func @main(%a: tensor<15x2xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
    -> (tensor<15x2xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // expected-error @below {{'inline' cannot read the region of 'dtensor.scan', which passes after it make; run those that are left by name}}
  %0 = "dtensor.scan"(%a) ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %1 = stablehlo.maximum %p, %q : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {dim = 0 : i64, reverse = 0 : i64, dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<15x2xf32>) -> tensor<15x2xf32>
  return %0 : tensor<15x2xf32>
}
