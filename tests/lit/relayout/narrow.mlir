// RUN: dtensor-opt %s -p dtensor-optimize-relayouts | filecheck %s
// RUN: dtensor-opt %s --dtensor-optimize-relayouts='narrow=false' | filecheck %s --check-prefix=OFF

// A gather of bf16 moves half of what a gather of f32 does.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @converted_after_the_gather
func.func @converted_after_the_gather(%arg0: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<64x48xbf16> {
  // CHECK-NEXT: %[[C:.*]] = stablehlo.convert %arg0 {dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xbf16>
  // CHECK-NEXT: %[[R:.*]] = "dtensor.relayout"(%[[C]]) {{.*}} : (tensor<64x48xbf16>) -> tensor<64x48xbf16>
  // CHECK-NEXT: return %[[R]]
  // OFF: "dtensor.relayout"(%arg0)
  // OFF-NEXT: stablehlo.convert
  %0 = "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{}, {}]>, dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  %1 = stablehlo.convert %0 {dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xbf16>
  return %1 : tensor<64x48xbf16>
}

// CHECK-LABEL: func.func @converted_before_the_gather
func.func @converted_before_the_gather(%arg0: tensor<64x48xbf16> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<64x48xf32> {
  // CHECK-NEXT: %[[R:.*]] = "dtensor.relayout"(%arg0) {{.*}} : (tensor<64x48xbf16>) -> tensor<64x48xbf16>
  // CHECK-NEXT: %[[C:.*]] = stablehlo.convert %[[R]] {dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]} : (tensor<64x48xbf16>) -> tensor<64x48xf32>
  // CHECK-NEXT: return %[[C]]
  %0 = stablehlo.convert %arg0 {dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<64x48xbf16>) -> tensor<64x48xf32>
  %1 = "dtensor.relayout"(%0) {layout = #dtensor.layout<@mesh, [{}, {}]>, dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  return %1 : tensor<64x48xf32>
}

// CHECK-LABEL: func.func @a_slice_is_free
func.func @a_slice_is_free(%arg0: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) -> tensor<64x48xbf16> {
  // CHECK-NEXT: "dtensor.relayout"(%arg0)
  // CHECK-NEXT: stablehlo.convert
  %0 = "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{"x"}, {}]>, dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  %1 = stablehlo.convert %0 {dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xbf16>
  return %1 : tensor<64x48xbf16>
}

// Rounded parts do not add up to the rounded sum.

// CHECK-LABEL: func.func @parts_are_not_rounded
func.func @parts_are_not_rounded(%arg0: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) -> tensor<64x48xbf16> {
  %0 = "stablehlo.custom_call"(%arg0) {call_target_name = "part0", dtensor.results = [#dtensor.layout<@mesh, [{}, {}], partial = {sum: "x"}>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  // CHECK: "dtensor.relayout"
  // CHECK-NEXT: stablehlo.convert
  %1 = "dtensor.relayout"(%0) {layout = #dtensor.layout<@mesh, [{}, {}]>, dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  %2 = stablehlo.convert %1 {dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xbf16>
  return %2 : tensor<64x48xbf16>
}
