// RUN: dtensor-opt %s --dtensor-import --dtensor-propagate --dtensor-verify-plan --dtensor-insert-relayouts --dtensor-verify-plan | filecheck %s --check-prefix=PLAN
// RUN: dtensor-opt %s --dtensor-import --dtensor-propagate --dtensor-insert-relayouts --dtensor-expand | filecheck %s
// RUN: dtensor-opt %s --dtensor-import --dtensor-propagate | dtensor-opt --dtensor-insert-relayouts --dtensor-expand | filecheck %s

// A region in a region works on shards of shards. The inner one leaves nothing to the planner, so
// nothing in it is laid out; the outer one leaves z to it, and that is used around it.

sdy.mesh @mesh = <["x"=2, "z"=2]>

// PLAN: stablehlo.cosine {{.*}}dtensor.results = [#dtensor.layout<@mesh, [{}, {"z"}]>]} : tensor<3x8xf32>
// PLAN: "dtensor.manual"
// PLAN-NEXT: ^bb0(%{{.*}}: tensor<3x4xf32>):
// PLAN-NEXT: stablehlo.negate %{{[^{]*}} : tensor<3x4xf32>
// PLAN: free = [], in_layouts = [#dtensor.layout<@mesh, [{}, {"z"}]>]
// PLAN: stablehlo.sine {{.*}}dtensor.results = [#dtensor.layout<@mesh, [{}, {"z"}]>]} : tensor<3x8xf32>
// PLAN: free = ["z"]

// CHECK-NOT: dtensor.manual
// CHECK: %[[COS:.*]] = stablehlo.cosine %arg0 : tensor<3x4xf32>
// CHECK: %[[NEG:.*]] = stablehlo.negate %[[COS]] : tensor<3x4xf32>
// CHECK: %[[SIN:.*]] = stablehlo.sine %[[NEG]] : tensor<3x4xf32>
// CHECK: return %{{.*}} : tensor<3x4xf32>
func.func @main(%a: tensor<6x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"z"}]>}) -> tensor<6x8xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x", ?}, {?}]>] out_shardings=[<@mesh, [{"x", ?}, {?}]>] manual_axes={"x"} (%b: tensor<3x8xf32>) {
    %1 = stablehlo.cosine %b : tensor<3x8xf32>
    %2 = sdy.manual_computation(%1) in_shardings=[<@mesh, [{}, {"z"}]>] out_shardings=[<@mesh, [{}, {"z"}]>] manual_axes={"z"} (%c: tensor<3x4xf32>) {
      %3 = stablehlo.negate %c : tensor<3x4xf32>
      sdy.return %3 : tensor<3x4xf32>
    } : (tensor<3x8xf32>) -> tensor<3x8xf32>
    %4 = stablehlo.sine %2 : tensor<3x8xf32>
    sdy.return %4 : tensor<3x8xf32>
  } : (tensor<6x8xf32>) -> tensor<6x8xf32>
  return %0 : tensor<6x8xf32>
}
