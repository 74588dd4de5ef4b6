// RUN: dtensor-opt %s --split-input-file --verify-diagnostics

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
func.func @one_layout_for_each(%a: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // expected-error @below {{'dtensor.manual' has 0 in_layouts for 1 values; give one for each}}
  %0 = "dtensor.manual"(%a) ({
  ^bb0(%s: tensor<4x6xf32>):
    stablehlo.return %s : tensor<4x6xf32>
  }) {in_layouts = [], out_layouts = [#dtensor.layout<@mesh, [{}, {}]>], free = []} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
func.func @a_tensor_has_a_layout(%a: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // expected-error @below {{in_layouts 0 is of tensor<4x6xf32>; give it a layout}}
  %0 = "dtensor.manual"(%a) ({
  ^bb0(%s: tensor<4x6xf32>):
    stablehlo.return %s : tensor<4x6xf32>
  }) {in_layouts = [unit], out_layouts = [#dtensor.layout<@mesh, [{}, {}]>], free = []} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
func.func @which_fits(%a: tensor<5x6xf32>) -> tensor<5x6xf32> {
  // expected-error @below {{in_layouts 0: dimension 0 has 5 elements, not divisible by the 2 devices of axes ['x']; pad it to 6, or leave it whole}}
  %0 = "dtensor.manual"(%a) ({
  ^bb0(%s: tensor<3x6xf32>):
    stablehlo.return %s : tensor<3x6xf32>
  }) {in_layouts = [#dtensor.layout<@mesh, [{"x"}, {}]>], out_layouts = [#dtensor.layout<@mesh, [{}, {}]>], free = []} : (tensor<5x6xf32>) -> tensor<5x6xf32>
  return %0 : tensor<5x6xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
func.func @free_axes_have_names(%a: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // expected-error @below {{attribute 'free' must be}}
  %0 = "dtensor.manual"(%a) ({
  ^bb0(%s: tensor<4x6xf32>):
    stablehlo.return %s : tensor<4x6xf32>
  }) {in_layouts = [#dtensor.layout<@mesh, [{}, {}]>], out_layouts = [#dtensor.layout<@mesh, [{}, {}]>], free = 1} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
func.func @a_region(%a: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // expected-error @below {{'dtensor.manual' has no region; give it what each device computes}}
  %0 = "dtensor.manual"(%a) {in_layouts = [#dtensor.layout<@mesh, [{}, {}]>], out_layouts = [#dtensor.layout<@mesh, [{}, {}]>], free = []} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
