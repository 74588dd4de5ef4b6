// RUN: dtensor-opt %s --dtensor-widen-reductions='element=f32' | filecheck %s
// RUN: dtensor-opt %s --dtensor-widen-reductions='element=bf16' | filecheck %s --check-prefix=SAME
// RUN: dtensor-opt %s --dtensor-widen-reductions='element=bf16' | filecheck %s --check-prefix=F16
// RUN: dtensor-opt %s --dtensor-widen-reductions | filecheck %s --check-prefix=SAME
// RUN: dtensor-opt %s --dtensor-widen-reductions | filecheck %s --check-prefix=DEFAULT
// RUN: dtensor-opt %s --dtensor-widen-reductions='element=f16' | filecheck %s --check-prefix=F16

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
    // SAME: return
    %0 = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<2x12xbf16>) -> tensor<2x12xbf16>
    return %0 : tensor<2x12xbf16>
  }

  // A float16 sum is made in f32 unless it is asked for as it is; a product is not rounded before.

  // CHECK-LABEL: func.func @f16_sums_are_made_in_f32
  // DEFAULT-LABEL: func.func @f16_sums_are_made_in_f32
  // DEFAULT: "dtensor.reduce_scatter"({{.*}}xf32>
  // F16-LABEL: func.func @f16_sums_are_made_in_f32
  // F16-NOT: stablehlo.convert
  func.func @f16_sums_are_made_in_f32(%arg0: tensor<8x12xf16>, %arg1: tensor<12x4xf16>) -> tensor<2x4xf16> {
    // CHECK: %[[DOT:.*]] = stablehlo.dot_general {{.*}} : (tensor<8x12xf16>, tensor<12x4xf16>) -> tensor<8x4xf32>
    // CHECK: %[[SUM:.*]] = "dtensor.reduce_scatter"(%[[DOT]]) {{.*}} : (tensor<8x4xf32>) -> tensor<2x4xf32>
    // CHECK: stablehlo.convert %[[SUM]] : (tensor<2x4xf32>) -> tensor<2x4xf16>
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<8x12xf16>, tensor<12x4xf16>) -> tensor<8x4xf16>
    %1 = "dtensor.reduce_scatter"(%0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64, reduction = "sum"} : (tensor<8x4xf16>) -> tensor<2x4xf16>
    return %1 : tensor<2x4xf16>
  }

  // A product that says how it is computed is converted.

  // CHECK-LABEL: func.func @an_algorithm_stays
  func.func @an_algorithm_stays(%arg0: tensor<8x12xf16>, %arg1: tensor<12x4xf16>) -> tensor<8x4xf16> {
    // CHECK: %[[NARROW:.*]] = stablehlo.dot_general {{.*}} -> tensor<8x4xf16>
    // CHECK: stablehlo.convert %[[NARROW]] : (tensor<8x4xf16>) -> tensor<8x4xf32>
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], algorithm = <lhs_precision_type = f16, rhs_precision_type = f16, accumulation_type = f16, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<8x12xf16>, tensor<12x4xf16>) -> tensor<8x4xf16>
    %1 = "dtensor.all_reduce"(%0) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<8x4xf16>) -> tensor<8x4xf16>
    return %1 : tensor<8x4xf16>
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
