// RUN: dtensor-opt %s --dtensor-expand | filecheck %s

// Constants and iota are made where they are needed, at the size of the shard.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// A splat is a smaller splat.
// CHECK-LABEL: func.func @splat
func.func @splat() -> (tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}]>}) {
  // CHECK-NEXT: stablehlo.constant dense<2.500000e+00> : tensor<4x3xf32>
  // CHECK-NEXT: return %{{.*}} : tensor<4x3xf32>
  %0 = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {"y"}]>]} dense<2.5> : tensor<8x12xf32>
  return %0 : tensor<8x12xf32>
}

// Of other constants each device keeps its slice; the whole stands in the program once.
// CHECK-LABEL: func.func @dense
func.func @dense() -> (tensor<4xi32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) {
  // CHECK-NEXT: %[[WHOLE:.*]] = stablehlo.constant dense<[3, 1, 4, 1]> : tensor<4xi32>
  // CHECK-NEXT: %[[SHARD:.*]] = "dtensor.all_slice"(%[[WHOLE]]) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64} : (tensor<4xi32>) -> tensor<2xi32>
  // CHECK-NEXT: return %[[SHARD]]
  %0 = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, [{"x"}]>]} dense<[3, 1, 4, 1]> : tensor<4xi32>
  return %0 : tensor<4xi32>
}

// MLIR's Python bindings cannot read complex elements; any piece of a splat is the shard.
// CHECK-LABEL: func.func @complex_splat
func.func @complex_splat() -> (tensor<4xcomplex<f32>> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) {
  // CHECK-NEXT: %[[WHOLE:.*]] = stablehlo.constant dense<(1.000000e+00,2.000000e+00)> : tensor<4xcomplex<f32>>
  // CHECK-NEXT: stablehlo.slice %[[WHOLE]] [0:2]
  %0 = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, [{"x"}]>]} dense<(1.0, 2.0)> : tensor<4xcomplex<f32>>
  return %0 : tensor<4xcomplex<f32>>
}

// CHECK-LABEL: func.func @iota_of_another_dimension
func.func @iota_of_another_dimension() -> (tensor<8x3xi32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // CHECK-NEXT: stablehlo.iota dim = 1 : tensor<4x3xi32>
  %0 = "stablehlo.iota"() {iota_dimension = 1 : i64, dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : () -> tensor<8x3xi32>
  return %0 : tensor<8x3xi32>
}

// A split dimension counts from the offset of the shard.
// CHECK-LABEL: func.func @iota
func.func @iota() -> (tensor<8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}) {
  // CHECK: %[[I:.*]] = stablehlo.iota dim = 0 : tensor<2xi32>
  // CHECK: %[[Y:.*]] = "dtensor.axis_index"() {axes = #dtensor.axes<@mesh, ["y"]>} : () -> tensor<i32>
  // CHECK: %[[SIZE:.*]] = stablehlo.constant dense<2> : tensor<i32>
  // CHECK: %[[OFFSET:.*]] = stablehlo.multiply %[[Y]], %[[SIZE]] : tensor<i32>
  // CHECK: %[[B:.*]] = stablehlo.broadcast_in_dim %[[OFFSET]], dims = [] : (tensor<i32>) -> tensor<2xi32>
  // CHECK: %[[G:.*]] = stablehlo.add %[[I]], %[[B]] : tensor<2xi32>
  // CHECK: %[[F:.*]] = stablehlo.convert %[[G]] : (tensor<2xi32>) -> tensor<2xf32>
  // CHECK: stablehlo.broadcast_in_dim %[[F]], dims = [0] : (tensor<2xf32>) -> tensor<2x3xf32>
  %0 = "stablehlo.iota"() {iota_dimension = 0 : i64, dtensor.results = [#dtensor.layout<@mesh, [{"y"}, {}]>]} : () -> tensor<8x3xf32>
  return %0 : tensor<8x3xf32>
}

// Three blocks, each split in two: the block is a digit inside the shard.
// CHECK-LABEL: func.func @iota_in_blocks
func.func @iota_in_blocks() -> (tensor<12xi32> {dtensor.layout = #dtensor.layout<@mesh, [{3, "x"}]>}) {
  // CHECK: stablehlo.iota dim = 0 : tensor<3x2xi32>
  // CHECK: stablehlo.constant dense<4> : tensor<3x2xi32>
  // CHECK: stablehlo.iota dim = 1 : tensor<3x2xi32>
  // CHECK: stablehlo.reshape %{{.*}} : (tensor<3x2xi32>) -> tensor<6xi32>
  // CHECK: "dtensor.axis_index"() {axes = #dtensor.axes<@mesh, ["x"]>}
  %0 = "stablehlo.iota"() {iota_dimension = 0 : i64, dtensor.results = [#dtensor.layout<@mesh, [{3, "x"}]>]} : () -> tensor<12xi32>
  return %0 : tensor<12xi32>
}
