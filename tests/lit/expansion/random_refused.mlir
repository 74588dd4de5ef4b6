// RUN: dtensor-opt %s --dtensor-expand --verify-diagnostics

// Nothing can make devices agree that draw from states of their own.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

func.func @hidden_state(%a: tensor<f32> {dtensor.layout = #dtensor.layout<@mesh, []>}, %shape: tensor<1xi64> {dtensor.layout = #dtensor.layout<@mesh, [{}]>})
    -> (tensor<4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}) {
  // expected-error @+1 {{stablehlo.rng draws from a state that each device has for itself, so the 2 devices of mesh @mesh would disagree; draw with stablehlo.rng_bit_generator (jax.random) from a key}}
  %0 = "stablehlo.rng"(%a, %a, %shape) {rng_distribution = #stablehlo<rng_distribution UNIFORM>, dtensor.results = [#dtensor.layout<@mesh, [{}]>]} : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
