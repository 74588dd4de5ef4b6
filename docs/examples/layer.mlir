// One layer: a batch that is split by rows, a weight that is split by columns, the same devices.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

func.func @main(
    %batch: tensor<64x128xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>},
    %weight: tensor<128x32xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>})
    -> tensor<64x32xf32> {
  %0 = stablehlo.dot_general %batch, %weight, contracting_dims = [1] x [0]
      : (tensor<64x128xf32>, tensor<128x32xf32>) -> tensor<64x32xf32>
  %1 = stablehlo.tanh %0 : tensor<64x32xf32>
  return %1 : tensor<64x32xf32>
}
