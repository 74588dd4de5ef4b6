// RUN: dtensor-opt %s --mesh x=2,y=4 --split-input-file --dtensor-import | filecheck %s

// dtensor.relayout in a JAX program is a composite, which plain jax.jit runs as the identity.

// CHECK-LABEL: func.func public @main
func.func public @main(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = stablehlo.tanh %arg0 : tensor<8x16xf32>
  // CHECK: "dtensor.relayout"(%0) {layout = #dtensor.layout<@mesh, [{"x"}, {?}]>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %1 = stablehlo.composite "dtensor.relayout" %0 {composite_attributes = {layout = "#dtensor.layout<@mesh, [{\22x\22}, {?}]>"}, decomposition = @dtensor_relayout_tensor_8x16xf32} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}
// The decomposition is not needed any more.
// CHECK-NOT: func.func
func.func private @dtensor_relayout_tensor_8x16xf32(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  return %arg0 : tensor<8x16xf32>
}

// -----

// A layout names axes; its mesh is the program's, whatever it was called in Python.

// CHECK-LABEL: func.func public @main
func.func public @main(%arg0: tensor<8x16xf32>, %arg1: tensor<i1>) -> tensor<8x16xf32> {
  %0 = "stablehlo.if"(%arg1) ({
    // CHECK: "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{"y"}, {}]>}
    %1 = stablehlo.composite "dtensor.relayout" %arg0 {composite_attributes = {layout = "#dtensor.layout<@other, [{\22y\22}, {}]>"}, decomposition = @identity} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    stablehlo.return %1 : tensor<8x16xf32>
  }, {
    stablehlo.return %arg0 : tensor<8x16xf32>
  }) : (tensor<i1>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}
func.func private @identity(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  return %arg0 : tensor<8x16xf32>
}
