// RUN: dtensor-opt %s --split-input-file -p dtensor-import,dtensor-fuse-cuts | filecheck %s

// Of a split dimension that is padded by a block and read in rows of blocks, the rows are padded.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<2x24x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}) -> tensor<2x9x3x5xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  // CHECK: %[[ROWS:.*]] = stablehlo.reshape %arg0 : (tensor<2x24x5xf32>) -> tensor<2x8x3x5xf32>
  // CHECK: %[[PADDED:.*]] = stablehlo.pad %[[ROWS]], %{{.*}}, low = [0, 1, 0, 0], high = [0, 0, 0, 0], interior = [0, 0, 0, 0]
  // CHECK: return %[[PADDED]]
  %0 = stablehlo.pad %a, %zero, low = [0, 3, 0], high = [0, 0, 0], interior = [0, 0, 0] : (tensor<2x24x5xf32>, tensor<f32>) -> tensor<2x27x5xf32>
  %1 = stablehlo.reshape %0 : (tensor<2x27x5xf32>) -> tensor<2x9x3x5xf32>
  return %1 : tensor<2x9x3x5xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// What is cut out of rows that were put one after another is cut out of the rows.

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<18xf32> {
  // CHECK: %[[ROWS:.*]] = stablehlo.slice %arg0 [2:8, 0:3] : (tensor<8x3xf32>) -> tensor<6x3xf32>
  // CHECK: stablehlo.reshape %[[ROWS]] : (tensor<6x3xf32>) -> tensor<18xf32>
  %0 = stablehlo.reshape %a : (tensor<8x3xf32>) -> tensor<24xf32>
  %1 = stablehlo.slice %0 [6:24] : (tensor<24xf32>) -> tensor<18xf32>
  return %1 : tensor<18xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// A cut of what no operation made of others stays; so does one that cuts through a row, and what is
// whole on every device, or less than half.

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<24xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}, %b: tensor<24xf32>, %c: tensor<24xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) -> (tensor<9x3xf32>, tensor<9x3xf32>, tensor<4x3xf32>, tensor<6xi32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  // CHECK-NOT: stablehlo.reshape %arg
  %0 = stablehlo.pad %a, %zero, low = [1], high = [2], interior = [0] : (tensor<24xf32>, tensor<f32>) -> tensor<27xf32>
  %1 = stablehlo.reshape %0 : (tensor<27xf32>) -> tensor<9x3xf32>
  %2 = stablehlo.pad %b, %zero, low = [0], high = [3], interior = [0] : (tensor<24xf32>, tensor<f32>) -> tensor<27xf32>
  %3 = stablehlo.reshape %2 : (tensor<27xf32>) -> tensor<9x3xf32>
  %4 = stablehlo.slice %c [0:12] : (tensor<24xf32>) -> tensor<12xf32>
  %5 = stablehlo.reshape %4 : (tensor<12xf32>) -> tensor<4x3xf32>
  %6 = stablehlo.iota dim = 0 : tensor<8xi32>
  // CHECK: stablehlo.slice %{{.*}} [1:7]
  %7 = stablehlo.slice %6 [1:7] : (tensor<8xi32>) -> tensor<6xi32>
  return %1, %3, %5, %7 : tensor<9x3xf32>, tensor<9x3xf32>, tensor<4x3xf32>, tensor<6xi32>
}
