// RUN: dtensor-opt %s --mesh x=2,y=4 --split-input-file --dtensor-import --dtensor-propagate | filecheck %s

// Constants, iota and broadcasts of scalars can be made in any layout: they decide nothing, and
// each use may take them as it likes.

// CHECK-LABEL: func.func @a_broadcast_scalar_for_two_uses
func.func @a_broadcast_scalar_for_two_uses(%a: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %b: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>}, %s: tensor<f32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  // CHECK: stablehlo.broadcast_in_dim %arg2, {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, []>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]}
  %0 = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<8x16xf32>
  // CHECK: stablehlo.add %arg0, %0 {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {}]>, #dtensor.layout<@mesh, [{"x"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]}
  %1 = stablehlo.add %a, %0 : tensor<8x16xf32>
  // CHECK: stablehlo.add %arg1, %0 {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}, {"y"}]>, #dtensor.layout<@mesh, [{}, {"y"}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {"y"}]>]}
  %2 = stablehlo.add %b, %0 : tensor<8x16xf32>
  return %1, %2 : tensor<8x16xf32>, tensor<8x16xf32>
}

// -----

// CHECK-LABEL: func.func @a_constant_takes_the_layout_of_its_use
func.func @a_constant_takes_the_layout_of_its_use(%a: tensor<4x2xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {"x"}]>}) -> tensor<4x2xf32> {
  // CHECK: stablehlo.constant {dtensor.algorithm = "local", dtensor.operands = [], dtensor.results = [#dtensor.layout<@mesh, [{"y"}, {"x"}]>]} dense<
  %0 = stablehlo.constant dense<[[1., 2.], [3., 4.], [5., 6.], [7., 8.]]> : tensor<4x2xf32>
  %1 = stablehlo.add %a, %0 : tensor<4x2xf32>
  return %1 : tensor<4x2xf32>
}

// -----

// A value made of constants alone is whole unless something asks for a part.
// CHECK-LABEL: func.func @an_iota_nobody_splits
func.func @an_iota_nobody_splits(%a: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK: stablehlo.iota dim = 0 {dtensor.algorithm = "local", dtensor.operands = [], dtensor.results = [#dtensor.layout<@mesh, [{}]>]}
  %0 = stablehlo.iota dim = 0 : tensor<8xf32>
  return %a, %0 : tensor<8xf32>, tensor<8xf32>
}

// -----

// A broadcast of a vector is no such value: it reads what is split.
// CHECK-LABEL: func.func @a_broadcast_vector_spreads
// CHECK-SAME: %arg0: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}
func.func @a_broadcast_vector_spreads(%a: tensor<8xf32>, %b: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<8x16xf32> {
  // CHECK: stablehlo.broadcast_in_dim %arg0, {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{"x"}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]}
  %0 = stablehlo.broadcast_in_dim %a, dims = [0] : (tensor<8xf32>) -> tensor<8x16xf32>
  %1 = stablehlo.add %b, %0 : tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}
