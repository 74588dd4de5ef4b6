// RUN: dtensor-opt %s --mesh x=2 --dtensor-import --dtensor-propagate | filecheck %s

// An operation without a rule reads and writes whole arrays, and nothing spreads through it.

// CHECK-LABEL: func.func @main
// CHECK-SAME: -> (tensor<4x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>})
func.func @main(%a: tensor<4x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<4x6xf32> {
  // CHECK: stablehlo.tanh {{.*}} dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]}
  %0 = stablehlo.tanh %a : tensor<4x6xf32>
  // CHECK: stablehlo.custom_call @mine{{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]}
  %1 = stablehlo.custom_call @mine(%0) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  // CHECK: stablehlo.exponential {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]}
  %2 = stablehlo.exponential %1 : tensor<4x6xf32>
  return %2 : tensor<4x6xf32>
}
