// RUN: dtensor-opt %s --split-input-file --mesh x=2,y=4 --verify-diagnostics -p dtensor-import,dtensor-propagate

// Plans are made of layouts that divide.

func.func @constraint(%a: tensor<6xf32>) -> tensor<6xf32> {
  // expected-error @+1 {{constraint has the layout [{"y"}]: dimension 0 has 6 elements, not divisible by the 4 devices of axes ['y']; pad it to 8, or leave it whole; or run dtensor-pad-uneven before}}
  %0 = "dtensor.relayout"(%a) {layout = #dtensor.layout<@mesh, [{"y"}]>} : (tensor<6xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

// expected-error @+1 {{argument has the layout [{"y"}]: dimension 0 has 6 elements}}
func.func @argument(%a: tensor<6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>}) -> tensor<6xf32> {
  return %a : tensor<6xf32>
}
