// RUN: dtensor-opt %s --split-input-file -p dtensor-import,dtensor-fuse-cuts | filecheck %s

// Of split rows that are read as rows of another length, elements are cut and not rows.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<2x8x9x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}, {}]>}) -> tensor<2x8x8x3xf32> {
  // CHECK: %[[ALL:.*]] = stablehlo.reshape %arg0 : (tensor<2x8x9x3xf32>) -> tensor<2x72x3xf32>
  // CHECK: %[[CUT:.*]] = stablehlo.slice %[[ALL]] [0:2, 8:72, 0:3] : (tensor<2x72x3xf32>) -> tensor<2x64x3xf32>
  // CHECK: %[[ROWS:.*]] = stablehlo.reshape %[[CUT]] : (tensor<2x64x3xf32>) -> tensor<2x8x8x3xf32>
  // CHECK: return %[[ROWS]]
  %0 = stablehlo.reshape %a : (tensor<2x8x9x3xf32>) -> tensor<2x9x8x3xf32>
  %1 = stablehlo.slice %0 [0:2, 1:9, 0:8, 0:3] : (tensor<2x9x8x3xf32>) -> tensor<2x8x8x3xf32>
  return %1 : tensor<2x8x8x3xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// So it is with a pad, as the gradient has it, and with what is read as rows of a third length.

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<16x15xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<16x16xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  // CHECK: %[[ALL:.*]] = stablehlo.reshape %arg0 : (tensor<16x15xf32>) -> tensor<240xf32>
  // CHECK: %[[PADDED:.*]] = stablehlo.pad %[[ALL]], %{{.*}}, low = [16], high = [0], interior = [0]
  // CHECK: stablehlo.reshape %[[PADDED]] : (tensor<256xf32>) -> tensor<16x16xf32>
  %0 = stablehlo.reshape %a : (tensor<16x15xf32>) -> tensor<15x16xf32>
  %1 = stablehlo.pad %0, %zero, low = [1, 0], high = [0, 0], interior = [0, 0] : (tensor<15x16xf32>, tensor<f32>) -> tensor<16x16xf32>
  return %1 : tensor<16x16xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// Where shards have whole rows of both lengths, rows are cut; so they are where nothing is split.

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<8x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %b: tensor<8x9xf32>) -> (tensor<12x3xf32>, tensor<8x8xf32>) {
  // CHECK: stablehlo.slice %{{.*}} [4:16, 0:3] : (tensor<16x3xf32>) -> tensor<12x3xf32>
  // CHECK: stablehlo.slice %{{.*}} [1:9, 0:8] : (tensor<9x8xf32>) -> tensor<8x8xf32>
  %0 = stablehlo.reshape %a : (tensor<8x6xf32>) -> tensor<16x3xf32>
  %1 = stablehlo.slice %0 [4:16, 0:3] : (tensor<16x3xf32>) -> tensor<12x3xf32>
  %2 = stablehlo.reshape %b : (tensor<8x9xf32>) -> tensor<9x8xf32>
  %3 = stablehlo.slice %2 [1:9, 0:8] : (tensor<9x8xf32>) -> tensor<8x8xf32>
  return %1, %3 : tensor<12x3xf32>, tensor<8x8xf32>
}
