// RUN: dtensor-opt %s -p dtensor-lower --split-input-file --verify-diagnostics

// A relayout speaks of global types; lowering works on local ones.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%arg0: tensor<8x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) -> tensor<8x6xf32> {
  // expected-error @+1 {{'dtensor.relayout' cannot be lowered; run dtensor-expand before dtensor-lower}}
  %0 = "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{"x"}, {}]>} : (tensor<8x6xf32>) -> tensor<8x6xf32>
  return %0 : tensor<8x6xf32>
}

// -----

// The padding of this one may be selected, which dtensor-expand makes an operation of its own.
func.func @main(%a: tensor<2x6xf32>, %s: tensor<2x3xf32>, %i: tensor<f32>) -> tensor<2x6xf32> {
  // expected-error @below {{'stablehlo.select_and_scatter' with 'dtensor.fill'; run dtensor-expand before dtensor-lower}}
  %0 = "stablehlo.select_and_scatter"(%a, %s, %i) <{window_dimensions = array<i64: 1, 3>, window_strides = array<i64: 1, 2>, padding = dense<[[0, 0], [0, 1]]> : tensor<2x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }, {
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {dtensor.fill = dense<0.0> : tensor<f32>} : (tensor<2x6xf32>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}

// -----

// What is planned and not yet expanded has global types.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%arg0: tensor<8x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<8x6xf32> {
  // expected-error @+1 {{'stablehlo.tanh' with 'dtensor.operands'; run dtensor-expand before dtensor-lower}}
  %0 = stablehlo.tanh %arg0 {dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : tensor<8x6xf32>
  return %0 : tensor<8x6xf32>
}

// -----

// Nothing here is planned or expanded: each device would be given its shard as if it were all.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// expected-error @below {{its arguments or results are split, and the module is not yet that of one device; run dtensor-expand before dtensor-lower}}
func.func @main(%arg0: tensor<8x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<8x6xf32> {
  %0 = stablehlo.tanh %arg0 : tensor<8x6xf32>
  return %0 : tensor<8x6xf32>
}
