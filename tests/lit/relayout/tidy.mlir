// RUN: dtensor-opt %s -p dtensor-optimize-relayouts | filecheck %s

// What one relayout does, the next one need not undo, and twice is once too often.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @there_and_back
func.func @there_and_back(%arg0: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<64x48xf32> {
  // CHECK-NEXT: return %arg0
  %0 = "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{}, {"x"}]>, dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}]>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  %1 = "dtensor.relayout"(%0) {layout = #dtensor.layout<@mesh, [{"x"}, {}]>, dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  return %1 : tensor<64x48xf32>
}

// CHECK-LABEL: func.func @to_the_layout_it_has
func.func @to_the_layout_it_has(%arg0: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<64x48xf32> {
  // CHECK-NEXT: return %arg0
  %0 = "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{"x"}, {}]>, dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  return %0 : tensor<64x48xf32>
}

// CHECK-LABEL: func.func @a_detour
func.func @a_detour(%arg0: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<64x48xf32> {
  // CHECK-NEXT: %[[R:.*]] = "dtensor.relayout"(%arg0) {{.*}}layout = #dtensor.layout<@mesh, [{}, {"x"}]>
  // CHECK-NEXT: return %[[R]]
  %0 = "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{}, {}]>, dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  %1 = "dtensor.relayout"(%0) {layout = #dtensor.layout<@mesh, [{}, {"x"}]>, dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}]>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  return %1 : tensor<64x48xf32>
}

// From the whole value the slice is free: a second exchange would not be.

// CHECK-LABEL: func.func @the_detour_is_needed_anyway
func.func @the_detour_is_needed_anyway(%arg0: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<64x48xf32>, tensor<64x48xf32>) {
  // CHECK-NEXT: %[[W:.*]] = "dtensor.relayout"(%arg0) {{.*}}layout = #dtensor.layout<@mesh, [{}, {}]>
  // CHECK-NEXT: %[[R:.*]] = "dtensor.relayout"(%[[W]]) {{.*}}layout = #dtensor.layout<@mesh, [{}, {"x"}]>
  // CHECK-NEXT: return %[[R]], %[[W]]
  %0 = "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{}, {}]>, dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  %1 = "dtensor.relayout"(%0) {layout = #dtensor.layout<@mesh, [{}, {"x"}]>, dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}]>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  return %1, %0 : tensor<64x48xf32>, tensor<64x48xf32>
}

// CHECK-LABEL: func.func @the_same_twice
func.func @the_same_twice(%arg0: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<64x48xf32>, tensor<64x48xf32>) {
  // CHECK-NEXT: %[[W:.*]] = "dtensor.relayout"(%arg0)
  // CHECK-NEXT: return %[[W]], %[[W]]
  %0 = "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{}, {}]>, dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  %1 = "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{}, {}]>, dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  return %1, %0 : tensor<64x48xf32>, tensor<64x48xf32>
}

// Neither branch sees what the other did.

// CHECK-LABEL: func.func @in_two_branches
func.func @in_two_branches(%arg0: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %arg1: tensor<i1> {dtensor.layout = #dtensor.layout<@mesh, []>}) -> tensor<64x48xf32> {
  // CHECK: "stablehlo.if"
  // CHECK-COUNT-2: "dtensor.relayout"(%arg0)
  %0 = "stablehlo.if"(%arg1) ({
    %1 = "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{}, {}]>, dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
    stablehlo.return %1 : tensor<64x48xf32>
  }, {
    %1 = "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{}, {}]>, dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
    stablehlo.return %1 : tensor<64x48xf32>
  }) {dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]} : (tensor<i1>) -> tensor<64x48xf32>
  return %0 : tensor<64x48xf32>
}

// CHECK-LABEL: func.func @nobody_uses_it
func.func @nobody_uses_it(%arg0: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<64x48xf32> {
  // CHECK-NEXT: return %arg0
  %0 = "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{}, {}]>, dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  return %arg0 : tensor<64x48xf32>
}
