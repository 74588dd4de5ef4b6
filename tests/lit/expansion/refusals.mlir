// RUN: dtensor-opt %s --dtensor-expand --split-input-file --verify-diagnostics

// Expansion needs a layout of every value, and that the layouts agree.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%a: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>})
    -> (tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) {
  // expected-error @+1 {{'stablehlo.tanh' has no dtensor.results; run dtensor-propagate and dtensor-insert-relayouts before dtensor-expand}}
  %0 = stablehlo.tanh %a : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// expected-error @+1 {{argument 1 has no dtensor.layout; run dtensor-propagate and dtensor-insert-relayouts before dtensor-expand}}
func.func @main(%a: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}, %b: tensor<8xf32>)
    -> (tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) {
  return %a : tensor<8xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%a: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>})
    -> (tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>}) {
  // expected-error @+1 {{internal error: value 0 of 'func.return' has layout [{"x"}], but [{"y"}] was planned; a relayout is missing before it}}
  return %a : tensor<8xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%p: tensor<i1> {dtensor.layout = #dtensor.layout<@mesh, []>}, %a: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>})
    -> (tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}) {
  // expected-error @+1 {{internal error: value 0 of 'stablehlo.while' has layout [{"x"}], but [{}] was planned; a relayout is missing before it}}
  %0 = stablehlo.while(%c = %a) : tensor<8xf32>
    attributes {dtensor.results = [#dtensor.layout<@mesh, [{}]>]}
    cond {
      stablehlo.return %p : tensor<i1>
    } do {
      stablehlo.return %c : tensor<8xf32>
    }
  return %0 : tensor<8xf32>
}

// -----

// expected-error @+1 {{the module is expanded already; its types are per-device}}
module attributes {dtensor.local} {
  "dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

  func.func @main(%a: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>})
      -> (tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) {
    return %a : tensor<8xf32>
  }
}

// -----

// expected-error @+1 {{no mesh: give the module a dtensor.mesh, or pass --mesh x=2,y=4 (in Python mesh=)}}
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
