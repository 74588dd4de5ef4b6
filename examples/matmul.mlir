// The matmul of matmul.py, with its mesh and layouts. What it becomes on each device:
//
//     dtensor-opt examples/matmul.mlir --dtensor-spmd

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func public @main(
    %a: tensor<16x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}]>},
    %b: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}) -> tensor<16x12xf32> {
  %product = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
      : (tensor<16x8xf32>, tensor<8x12xf32>) -> tensor<16x12xf32>
  return %product : tensor<16x12xf32>
}
