"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

func.func @main(%a: tensor<10xf32>) -> tensor<10xf32> {
  %0 = "dtensor.relayout"(%a) {layout = #dtensor.layout<@mesh, [{3, "x"}]>} : (tensor<10xf32>) -> tensor<10xf32>
  return %0 : tensor<10xf32>
}
