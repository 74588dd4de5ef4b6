// RUN: dtensor-opt %s --split-input-file --dtensor-expand --verify-diagnostics

// An op names an algorithm that it has, and that computes its layouts.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

func.func @main(%a: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>})
    -> (tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) {
  // expected-error @+1 {{'stablehlo.tanh' has no algorithm 'by_magic'; it has 'local': name one of them}}
  %0 = stablehlo.tanh %a {dtensor.algorithm = "by_magic", dtensor.results = [#dtensor.layout<@mesh, [{"x"}]>]} : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

func.func @main(%a: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}, %i: tensor<f32> {dtensor.layout = #dtensor.layout<@mesh, []>})
    -> (tensor<f32> {dtensor.layout = #dtensor.layout<@mesh, []>}) {
  // expected-error @+1 {{algorithm 'gather_totals' of 'stablehlo.reduce' does not compute [] from [{"x"}], []; let dtensor-propagate choose layouts and algorithm}}
  %0 = "stablehlo.reduce"(%a, %i) <{dimensions = array<i64: 0>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {dtensor.algorithm = "gather_totals", dtensor.results = [#dtensor.layout<@mesh, []>]} : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

func.func @main(%a: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>})
    -> (tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) {
  // expected-error @+1 {{'dtensor.algorithm' is 3 : i64; give an algorithm's name}}
  %0 = stablehlo.tanh %a {dtensor.algorithm = 3 : i64, dtensor.results = [#dtensor.layout<@mesh, [{"x"}]>]} : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// Totals of columns are not those of rows, one after the other.
func.func @main(%a: tensor<3x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}, %i: tensor<f32> {dtensor.layout = #dtensor.layout<@mesh, []>})
    -> (tensor<f32> {dtensor.layout = #dtensor.layout<@mesh, []>}) {
  // expected-error @+1 {{'stablehlo.reduce' has no algorithm that computes [] from [{}, {"x"}], []; let dtensor-propagate choose layouts and algorithm}}
  %0 = "stablehlo.reduce"(%a, %i) <{dimensions = array<i64: 0, 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.multiply %x, %y : tensor<f32>
    %2 = stablehlo.add %1, %y : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }) {dtensor.results = [#dtensor.layout<@mesh, []>]} : (tensor<3x8xf32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
