// RUN: dtensor-opt %s --split-input-file --mesh x=2,y=4 --verify-diagnostics --dtensor-import

// Arguments and results are complete and contiguous; anything else is refused with the remedy.

// expected-error @+1 {{dimension 0 has 8 elements, not divisible by the 6 blocks of {3, "x"}; pad it to 12, or leave it whole}}
func.func @uneven_blocks(%a: tensor<8x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{3, "x"}, {}]>}) -> tensor<8x5xf32> {
  return %a : tensor<8x5xf32>
}

// -----

// expected-error @+1 {{partial over axes ['x']; arguments and results must be complete: reduce first}}
func.func @partial_argument(%a: tensor<4x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}], partial = {sum: "x"}>}) -> tensor<4x8xf32> {
  return %a : tensor<4x8xf32>
}

// -----

// expected-error @+1 {{partial over axes ['y']; arguments and results must be complete: reduce first}}
func.func @partial_result(%a: tensor<4x8xf32>) -> (tensor<4x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}], partial = {max: "y"}>}) {
  return %a : tensor<4x8xf32>
}

// -----

// expected-error @+1 {{dimension 0 is cut into blocks, {3, "x"}; arguments and results must have contiguous shards: drop the block count}}
func.func @blocked_argument(%a: tensor<12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{3, "x"}]>}) -> tensor<12xf32> {
  return %a : tensor<12xf32>
}

// -----

// expected-error @+1 {{dimension 0 is cut into blocks, {3, "x"}}}
func.func @blocked_result(%a: tensor<12xf32>) -> (tensor<12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{3, "x"}]>}) {
  return %a : tensor<12xf32>
}

// -----

// expected-error @+1 {{layout has 1 dimensions but the tensor has rank 2}}
func.func @rank_of_an_argument(%a: tensor<4x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) -> tensor<4x8xf32> {
  return %a : tensor<4x8xf32>
}

// -----

// expected-error @+1 {{axis "z" that mesh @mesh does not have}}
func.func @unknown_axis(%a: tensor<4x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"z"}, {}]>}) -> tensor<4x8xf32> {
  return %a : tensor<4x8xf32>
}

// -----

// expected-error @+1 {{unknown mesh @grid}}
func.func @unknown_mesh(%a: tensor<4x8xf32> {dtensor.layout = #dtensor.layout<@grid, [{"x"}, {}]>}) -> tensor<4x8xf32> {
  return %a : tensor<4x8xf32>
}

// -----

func.func @main(%a: tensor<8x5xf32>) -> tensor<8x5xf32> {
  // expected-error @+1 {{a constraint asks for the layout [{3, "x"}, {}]: dimension 0 has 8 elements, not divisible by the 6 blocks of {3, "x"}; pad it to 12, or leave it whole}}
  %0 = stablehlo.composite "dtensor.relayout" %a {composite_attributes = {layout = "#dtensor.layout<@mesh, [{3, \22x\22}, {}]>"}, decomposition = @identity} : (tensor<8x5xf32>) -> tensor<8x5xf32>
  return %0 : tensor<8x5xf32>
}
func.func private @identity(%a: tensor<8x5xf32>) -> tensor<8x5xf32> {
  return %a : tensor<8x5xf32>
}

// -----

func.func @main(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{a constraint asks for the layout [{"x"}]: layout has 1 dimensions but the tensor has rank 2; give one entry per dimension}}
  %0 = stablehlo.composite "dtensor.relayout" %a {composite_attributes = {layout = "#dtensor.layout<@mesh, [{\22x\22}]>"}, decomposition = @identity} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
func.func private @identity(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  return %a : tensor<4x8xf32>
}

// -----

func.func @main(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{malformed layout}}
  %0 = stablehlo.composite "dtensor.relayout" %a {composite_attributes = {layout = "#dtensor.layout<@mesh, [x, {}]>"}, decomposition = @identity} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
func.func private @identity(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  return %a : tensor<4x8xf32>
}

// -----

func.func @main(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{composite "dtensor.relayout" has no layout; make it with dtensor.relayout}}
  %0 = stablehlo.composite "dtensor.relayout" %a {composite_attributes = {}, decomposition = @identity} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
func.func private @identity(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  return %a : tensor<4x8xf32>
}
