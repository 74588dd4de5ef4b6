// RUN: dtensor-opt %s --mesh x=2,y=4 --split-input-file --dtensor-import --dtensor-propagate | filecheck %s

// A result that is whole is gathered where it is smallest: in front of the broadcast.
// CHECK-LABEL: func.func @in_front_of_a_broadcast
func.func @in_front_of_a_broadcast(
    %a: tensor<64x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>})
    -> (tensor<64x48x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}, {}]>}) {
  // CHECK: stablehlo.broadcast_in_dim {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {}, {}]>]}
  %0 = stablehlo.broadcast_in_dim %a, dims = [0, 2] : (tensor<64x8xf32>) -> tensor<64x48x8xf32>
  // CHECK: stablehlo.negate {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}, {}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {}, {}]>]}
  %1 = stablehlo.negate %0 : tensor<64x48x8xf32>
  // CHECK: stablehlo.abs {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}, {}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {}, {}]>]}
  %2 = stablehlo.abs %1 : tensor<64x48x8xf32>
  return %2 : tensor<64x48x8xf32>
}

// -----

// Not where the value is the larger one there: only what the slice keeps is gathered.
// CHECK-LABEL: func.func @behind_a_slice
func.func @behind_a_slice(
    %a: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>})
    -> (tensor<64x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  // CHECK: stablehlo.slice {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{"y"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{"y"}, {}]>]}
  %0 = stablehlo.slice %a [0:64, 5:8] : (tensor<64x48xf32>) -> tensor<64x3xf32>
  // CHECK: stablehlo.negate {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{"y"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{"y"}, {}]>]}
  %1 = stablehlo.negate %0 : tensor<64x3xf32>
  return %1 : tensor<64x3xf32>
}

// -----

// To another dimension too, and no further up than it pays.
// CHECK-LABEL: func.func @to_another_dimension
func.func @to_another_dimension(
    %a: tensor<64x32xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>})
    -> (tensor<64x32x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}, {}]>}) {
  // CHECK: stablehlo.negate {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{"y"}, {}]>]
  %0 = stablehlo.negate %a : tensor<64x32xf32>
  // CHECK: stablehlo.broadcast_in_dim {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}, {"y"}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {"y"}, {}]>]}
  %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<64x32xf32>) -> tensor<64x32x48xf32>
  // CHECK: stablehlo.abs {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}, {"y"}, {}]>]
  %2 = stablehlo.abs %1 : tensor<64x32x48xf32>
  return %2 : tensor<64x32x48xf32>
}
