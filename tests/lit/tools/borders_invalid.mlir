// RUN: dtensor-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{argument 1 is a tuple with mhlo.sharding, which does not say what holds for each element; give the elements by themselves}}
func.func @main(%a: tensor<4xf32>, %b: tuple<tensor<8xf32>, tensor<4xi32>> {mhlo.sharding = "{{devices=[2]0,1},{replicated}}"}) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}

// -----

func.func @main(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // expected-error @below {{jaxlib has no quantised types: run stablehlo-legalize-quant-to-math first}}
  %0 = stablehlo.uniform_quantize %a : (tensor<8x4xf32>) -> tensor<8x4x!quant.uniform<i8:f32, 2.0:15>>
  %1 = stablehlo.uniform_dequantize %0 : (tensor<8x4x!quant.uniform<i8:f32, 2.0:15>>) -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}
