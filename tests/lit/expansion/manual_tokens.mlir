// RUN: dtensor-opt %s --dtensor-import --dtensor-propagate --dtensor-verify-plan --dtensor-insert-relayouts --dtensor-verify-plan | filecheck %s --check-prefix=PLAN
// RUN: dtensor-opt %s --dtensor-import --dtensor-propagate --dtensor-insert-relayouts --dtensor-expand | filecheck %s
// RUN: dtensor-opt %s --dtensor-import --dtensor-propagate | dtensor-opt --dtensor-insert-relayouts --dtensor-expand | filecheck %s

// Tokens come into a region and out of it; there is nothing to lay out.

sdy.mesh @mesh = <["x"=2, "y"=4]>

// PLAN: dtensor.operands = [unit, #dtensor.layout<@mesh, [{"x"}, {"y"}]>], dtensor.results = [unit, #dtensor.layout<@mesh, [{"x"}, {"y"}]>], free = ["y"], in_layouts = [unit, #dtensor.layout<@mesh, [{"x", ?}, {?}]>]

// CHECK: %[[START:.*]] = stablehlo.after_all : !stablehlo.token
// CHECK: "stablehlo.if"
// CHECK: %[[CALL:.*]] = stablehlo.custom_call @xla_ffi_python_cpu_callback(%[[START]], %{{.*}}) {{.*}} -> !stablehlo.token
// CHECK: stablehlo.return %[[CALL]]
// CHECK: stablehlo.return %[[START]]
// CHECK: stablehlo.custom_call @xla_ffi_python_cpu_callback(%{{.*}}, %{{.*}}) {{.*}} -> !stablehlo.token
func.func @main(%a: tensor<8x12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> tensor<8x12xf32> {
  %start = stablehlo.after_all : !stablehlo.token
  %0:2 = sdy.manual_computation(%start, %a) in_shardings=[<@mesh, []>, <@mesh, [{"x", ?}, {?}]>] out_shardings=[<@mesh, []>, <@mesh, [{"x", ?}, {?}]>] manual_axes={"x"} (%t: !stablehlo.token, %b: tensor<4x12xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %sum = stablehlo.reduce(%b init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x12xf32>, tensor<f32>) -> tensor<f32>
    %1 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%t, %sum) {has_side_effect = true} : (!stablehlo.token, tensor<f32>) -> !stablehlo.token
    %2 = stablehlo.sine %b : tensor<4x12xf32>
    sdy.return %1, %2 : !stablehlo.token, tensor<4x12xf32>
  } : (!stablehlo.token, tensor<8x12xf32>) -> (!stablehlo.token, tensor<8x12xf32>)
  %3:2 = sdy.manual_computation(%0#0, %0#1) in_shardings=[<@mesh, []>, <@mesh, [{"x"}, {"y"}]>] out_shardings=[<@mesh, []>, <@mesh, [{"x"}, {"y"}]>] manual_axes={"x", "y"} (%t: !stablehlo.token, %b: tensor<4x3xf32>) {
    %4 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%t, %b) {has_side_effect = true} : (!stablehlo.token, tensor<4x3xf32>) -> !stablehlo.token
    sdy.return %4, %b : !stablehlo.token, tensor<4x3xf32>
  } : (!stablehlo.token, tensor<8x12xf32>) -> (!stablehlo.token, tensor<8x12xf32>)
  return %3#1 : tensor<8x12xf32>
}
