// RUN: dtensor-opt %s --dtensor-widen-reductions='element=f32' | filecheck %s
// RUN: dtensor-opt %s --dtensor-widen-reductions='element=bf16' | filecheck %s --check-prefix=SAME
// RUN: dtensor-opt %s --dtensor-widen-reductions | filecheck %s --check-prefix=SAME

// Sums over devices of narrow floats are made in a wider type, and converted back.

module {
  "dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

  // CHECK-LABEL: func.func @bf16_sums_are_made_in_f32
  // SAME-LABEL: func.func @bf16_sums_are_made_in_f32
  func.func @bf16_sums_are_made_in_f32(%arg0: tensor<2x12xbf16>) -> tensor<2x12xbf16> {
    // CHECK: %[[WIDE:.*]] = stablehlo.convert %arg0 : (tensor<2x12xbf16>) -> tensor<2x12xf32>
    // CHECK: %[[SUM:.*]] = "dtensor.all_reduce"(%[[WIDE]]) {{.*}} : (tensor<2x12xf32>) -> tensor<2x12xf32>
    // CHECK: %[[BACK:.*]] = stablehlo.convert %[[SUM]] : (tensor<2x12xf32>) -> tensor<2x12xbf16>
    // CHECK: return %[[BACK]]
    // SAME-NOT: stablehlo.convert
    %0 = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<2x12xbf16>) -> tensor<2x12xbf16>
    return %0 : tensor<2x12xbf16>
  }

  // CHECK-LABEL: func.func @what_is_wide_enough_stays
  func.func @what_is_wide_enough_stays(%arg0: tensor<8x12xf32>) -> tensor<2x12xf32> {
    // CHECK-NOT: stablehlo.convert
    // CHECK: "dtensor.reduce_scatter"(%arg0)
    %0 = "dtensor.reduce_scatter"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64, reduction = "sum"} : (tensor<8x12xf32>) -> tensor<2x12xf32>
    return %0 : tensor<2x12xf32>
  }

  // CHECK-LABEL: func.func @maxima_lose_nothing
  func.func @maxima_lose_nothing(%arg0: tensor<2x12xbf16>) -> tensor<2x12xbf16> {
    // CHECK-NOT: stablehlo.convert
    // CHECK: return
    %0 = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "max"} : (tensor<2x12xbf16>) -> tensor<2x12xbf16>
    return %0 : tensor<2x12xbf16>
  }
}
