// RUN: dtensor-opt %s --dtensor-import --dtensor-propagate --dtensor-insert-relayouts --dtensor-expand | filecheck %s

// A Python function with effects is called by the first device, of the axes that are left to the
// planner, and what it answers is sent to the others bit by bit; one without effects is called by
// each device.

sdy.mesh @mesh = <["x"=2, "y"=4]>

// CHECK-LABEL: func.func @main
// CHECK: %[[WHOLE:.*]] = "dtensor.all_gather"(%arg0)
// CHECK: %[[INDEX:.*]] = "dtensor.axis_index"() {axes = #dtensor.axes<@mesh, ["x", "y"]>}
// CHECK: %[[FIRST:.*]] = stablehlo.compare EQ, %[[INDEX]],
// CHECK: %[[ANSWER:.*]]:2 = "stablehlo.if"(%[[FIRST]]) ({
// CHECK: stablehlo.custom_call @xla_ffi_python_cpu_callback(%{{.*}}, %[[WHOLE]])
// CHECK: }, {
// CHECK: stablehlo.return
// CHECK: }) : (tensor<i1>) -> (!stablehlo.token, tensor<6xf16>)
// CHECK: %[[BITS:.*]] = stablehlo.bitcast_convert %[[ANSWER]]#1 : (tensor<6xf16>) -> tensor<6xui16>
// CHECK: %[[SENT:.*]] = "dtensor.all_reduce"(%[[BITS]]) {axes = #dtensor.axes<@mesh, ["x", "y"]>, reduction = "sum"}
// CHECK: stablehlo.bitcast_convert %[[SENT]] : (tensor<6xui16>) -> tensor<6xf16>

// Inside, x is manual.
// CHECK: "dtensor.axis_index"() {axes = #dtensor.axes<@mesh, ["y"]>}
// CHECK: "stablehlo.if"
// CHECK-NEXT: stablehlo.custom_call @xla_ffi_python_cpu_callback
// CHECK-NOT: "stablehlo.if"
// CHECK: stablehlo.custom_call @xla_ffi_python_cpu_callback
func.func @main(%a: tensor<6xf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %b: tensor<8x5xf32>) -> (tensor<6xf16>, tensor<8x5xf32>) {
  %start = stablehlo.after_all : !stablehlo.token
  %0:2 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%start, %a) {has_side_effect = true} : (!stablehlo.token, tensor<6xf16>) -> (!stablehlo.token, tensor<6xf16>)
  %1 = sdy.manual_computation(%b) in_shardings=[<@mesh, [{"x", ?}, {?}]>] out_shardings=[<@mesh, [{"x", ?}, {?}]>] manual_axes={"x"} (%c: tensor<4x5xf32>) {
    stablehlo.custom_call @xla_ffi_python_cpu_callback(%c) {has_side_effect = true} : (tensor<4x5xf32>) -> ()
    %2 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%c) : (tensor<4x5xf32>) -> tensor<4x5xf32>
    sdy.return %2 : tensor<4x5xf32>
  } : (tensor<8x5xf32>) -> tensor<8x5xf32>
  return %0#1, %1 : tensor<6xf16>, tensor<8x5xf32>
}
