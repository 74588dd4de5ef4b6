// RUN: dtensor-opt %s --split-input-file --verify-diagnostics --dtensor-propagate

// expected-error @+1 {{no mesh: give the module a dtensor.mesh, or pass --mesh x=2,y=4 (in Python mesh=)}}
func.func @no_mesh(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=12]>} : () -> ()
// expected-error @+1 {{parts of axis "x" end at 2 and 3 devices, and neither divides the other; write parts that nest}}
func.func @parts_that_do_not_nest(%a: tensor<12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x":(1)2}]>}, %b: tensor<12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x":(1)3}]>}) -> tensor<12xf32> {
  %0 = stablehlo.add %a, %b : tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
func.func @a_size_that_is_not_known(%a: tensor<4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}, %n: tensor<1xi32>) -> tensor<?xf32> {
  // expected-error @+1 {{tensor<?xf32> has a dynamic dimension; give every dimension a size}}
  %0 = stablehlo.dynamic_reshape %a, %n : (tensor<4xf32>, tensor<1xi32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
// expected-error @+1 {{tensor<?xf32> has a dynamic dimension; give every dimension a size}}
func.func @an_argument_of_unknown_size(%a: tensor<?xf32>) -> tensor<?xf32> {
  return %a : tensor<?xf32>
}
