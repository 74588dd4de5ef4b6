// RUN: dtensor-opt %s --split-input-file -p dtensor-import -p dtensor-fuse-cuts | filecheck %s

// Columns are split unevenly: of a product of all elements, both dimensions are summed.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<3x10xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}) -> tensor<f32> {
  // CHECK-NOT: stablehlo.reshape
  // CHECK: stablehlo.dot_general %arg0, %arg0, contracting_dims = [0, 1] x [0, 1]
  %0 = stablehlo.reshape %a : (tensor<3x10xf32>) -> tensor<30xf32>
  %1 = stablehlo.dot_general %0, %0, contracting_dims = [0] x [0] : (tensor<30xf32>, tensor<30xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// What divides has no padding within.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<3x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}) -> tensor<f32> {
  // CHECK: stablehlo.reshape
  %0 = stablehlo.reshape %a : (tensor<3x8xf32>) -> tensor<24xf32>
  %1 = stablehlo.dot_general %0, %0, contracting_dims = [0] x [0] : (tensor<24xf32>, tensor<24xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// Of rows that are merged with whole columns, the padding stands at the end.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<10x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<f32> {
  // CHECK: stablehlo.reshape
  %0 = stablehlo.reshape %a : (tensor<10x3xf32>) -> tensor<30xf32>
  %1 = stablehlo.dot_general %0, %0, contracting_dims = [0] x [0] : (tensor<30xf32>, tensor<30xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// A result that merges them needs them merged: what is computed of them is, behind the larger one.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<3x10x2xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}, %w: tensor<2x7xf32>) -> tensor<30x7xf32> {
  // CHECK: stablehlo.reshape %arg0
  // CHECK: stablehlo.dot_general
  %0 = stablehlo.reshape %a : (tensor<3x10x2xf32>) -> tensor<30x2xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] : (tensor<30x2xf32>, tensor<2x7xf32>) -> tensor<30x7xf32>
  return %1 : tensor<30x7xf32>
}

// -----

// Two values one behind the other are two rows, and some of those are slices of what is computed.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<10x2xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %b: tensor<10x2xf32>, %w: tensor<2x3xf32>) -> (tensor<3xf32>, tensor<10x3xf32>) {
  // CHECK: %[[BOTH:.*]] = stablehlo.concatenate %{{.*}}, %{{.*}}, dim = 0 : (tensor<1x10x2xf32>, tensor<1x10x2xf32>)
  // CHECK: %[[DOT:.*]] = stablehlo.dot_general %[[BOTH]], %{{.*}}, contracting_dims = [2] x [0]
  // CHECK: stablehlo.reduce(%[[DOT]] {{.*}} across dimensions = [0, 1]
  // CHECK: stablehlo.slice %[[DOT]] [1:2, 0:10, 0:3]
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.concatenate %a, %b, dim = 0 : (tensor<10x2xf32>, tensor<10x2xf32>) -> tensor<20x2xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] : (tensor<20x2xf32>, tensor<2x3xf32>) -> tensor<20x3xf32>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<20x3xf32>, tensor<f32>) -> tensor<3xf32>
  %3 = stablehlo.slice %1 [10:20, 0:3] : (tensor<20x3xf32>) -> tensor<10x3xf32>
  return %2, %3 : tensor<3xf32>, tensor<10x3xf32>
}
