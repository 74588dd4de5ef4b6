// RUN: dtensor-opt %s --split-input-file --verify-diagnostics

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<4xf32>) {
  // expected-error @below {{'dtensor.operands' has 1 layouts for 2 values; give one each, unit where the value is no tensor}}
  %0 = stablehlo.add %arg0, %arg0 {dtensor.operands = [#dtensor.layout<@mesh, [{}]>]} : tensor<4xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<6xf32>) {
  // expected-error @below {{'dtensor.results' 0: dimension 0 has 6 elements, not divisible by the 4 devices of axes ['y']}}
  %0 = stablehlo.abs %arg0 {dtensor.results = [#dtensor.layout<@mesh, [{"y"}]>]} : tensor<6xf32>
  return
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%arg0: tensor<6xf32>) {
  // expected-error @below {{'dtensor.results': expected a list of #dtensor.layout<...>, found #dtensor.layout<@mesh, [{}]>}}
  %0 = stablehlo.abs %arg0 {dtensor.results = #dtensor.layout<@mesh, [{}]>} : tensor<6xf32>
  return
}

// -----

func.func @main(%arg0: tensor<6xf32>) {
  // expected-error @below {{'dtensor.fill' stands on 'stablehlo.abs'; only select_and_scatter pads so}}
  %0 = stablehlo.abs %arg0 {dtensor.fill = dense<0.0> : tensor<f32>} : tensor<6xf32>
  return
}

// -----

func.func @main(%arg0: tensor<6xf32>) {
  // expected-error @below {{'dtensor.fits' stands on 'stablehlo.abs'; only a pad makes a value longer}}
  %0 = stablehlo.abs %arg0 {dtensor.fits} : tensor<6xf32>
  return
}

// -----

func.func @main(%arg0: tensor<6xf32>) {
  // expected-error @below {{'dtensor.size' stands on 'stablehlo.abs'; only top_k, sort and ranked take rows that are padded}}
  %0 = stablehlo.abs %arg0 {dtensor.size = 5 : i64} : tensor<6xf32>
  return
}

// -----

func.func @main(%arg0: tensor<6xf32>) {
  // expected-error @below {{'dtensor.steps' stands on 'stablehlo.abs'; only a convolution has a kernel}}
  %0 = stablehlo.abs %arg0 {dtensor.steps = array<i64: 5, 1>} : tensor<6xf32>
  return
}

// -----

func.func @main(%arg0: tensor<6xf32>) {
  // expected-error @below {{'dtensor.trips' stands on 'stablehlo.abs'; only a loop has trips}}
  %0 = stablehlo.abs %arg0 {dtensor.trips = 1 : i64} : tensor<6xf32>
  return
}

// -----

func.func @main(%arg0: tensor<i1>) {
  // expected-error @below {{'dtensor.trips' is "few"; give how many trips there are}}
  %0 = stablehlo.while(%i = %arg0) : tensor<i1> attributes {dtensor.trips = "few"}
    cond {
      stablehlo.return %i : tensor<i1>
    } do {
      stablehlo.return %i : tensor<i1>
    }
  return
}
