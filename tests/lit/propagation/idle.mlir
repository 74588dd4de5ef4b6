// RUN: dtensor-opt %s --mesh x=4 --split-input-file --dtensor-import --dtensor-propagate | filecheck %s
// RUN: dtensor-opt %s --mesh x=4 --split-input-file --dtensor-import --dtensor-propagate=min-flops=1e12 | filecheck %s --check-prefix=IDLE

// No lost parallelism: a matmul of some size never leaves an axis idle that could divide it, though
// gathering the small operand and computing everything everywhere would communicate less.

// CHECK-LABEL: func.func @a_matmul_never_leaves_an_axis_idle
// IDLE-LABEL: func.func @a_matmul_never_leaves_an_axis_idle
func.func @a_matmul_never_leaves_an_axis_idle(
    %a: tensor<512x64xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}, %b: tensor<64x512xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
    -> (tensor<512x512xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  // CHECK: stablehlo.dot_general {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}, {"x"}]>, #dtensor.layout<@mesh, [{"x"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {}], partial = {sum: "x"}>]}
  // IDLE: stablehlo.dot_general {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}, {}]>, #dtensor.layout<@mesh, [{}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]}
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<512x64xf32>, tensor<64x512xf32>) -> tensor<512x512xf32>
  return %0 : tensor<512x512xf32>
}

// -----

// 1e5 operations are few: below them cost alone decides.
// CHECK-LABEL: func.func @a_small_matmul_may_be_repeated
func.func @a_small_matmul_may_be_repeated(
    %a: tensor<32x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}, %b: tensor<8x32xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
    -> (tensor<32x32xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  // CHECK: stablehlo.dot_general {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}, {}]>, #dtensor.layout<@mesh, [{}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]}
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<32x8xf32>, tensor<8x32xf32>) -> tensor<32x32xf32>
  return %0 : tensor<32x32xf32>
}
