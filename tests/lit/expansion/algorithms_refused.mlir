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

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// A window of 11 elements reads results of more than the shard beside it, which has 4.
func.func @main(%a: tensor<3x8x7xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}, %k: tensor<11x7x2xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {}]>})
    -> (tensor<3x8x2xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}) {
  // expected-error @+1 {{algorithm 'own_elements' of 'stablehlo.convolution' does not compute [{}, {"x"}, {}] from [{}, {"x"}, {}], [{}, {}, {}]; let dtensor-propagate choose layouts and algorithm}}
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[5, 5]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.algorithm = "own_elements", dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}, {}]>]} : (tensor<3x8x7xf32>, tensor<11x7x2xf32>) -> tensor<3x8x2xf32>
  return %0 : tensor<3x8x2xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// Nor does it know what stands around a value that goes round.
func.func @main(%a: tensor<3x8x7xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}, %k: tensor<3x7x2xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {}]>})
    -> (tensor<3x8x2xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}) {
  // expected-error @+1 {{algorithm 'own_elements' of 'stablehlo.convolution' does not compute [{}, {"x"}, {}] from [{}, {"x"}, {}], [{}, {}, {}]; let dtensor-propagate choose layouts and algorithm}}
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.ends = ["wrap"], dtensor.algorithm = "own_elements", dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}, {}]>]} : (tensor<3x8x7xf32>, tensor<3x7x2xf32>) -> tensor<3x8x2xf32>
  return %0 : tensor<3x8x2xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// Of 8 elements shards have 7 results, which begin elsewhere in each.
func.func @main(%a: tensor<3x16x7xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}, %k: tensor<3x7x2xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {}]>})
    -> (tensor<3x14x2xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}) {
  // expected-error @+1 {{algorithm 'own_elements' of 'stablehlo.convolution' does not compute [{}, {"x"}, {}] from [{}, {"x"}, {}], [{}, {}, {}]; let dtensor-propagate choose layouts and algorithm}}
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.algorithm = "own_elements", dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}, {}]>]} : (tensor<3x16x7xf32>, tensor<3x7x2xf32>) -> tensor<3x14x2xf32>
  return %0 : tensor<3x14x2xf32>
}
