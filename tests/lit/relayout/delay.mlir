// RUN: dtensor-opt %s -p dtensor-optimize-relayouts | filecheck %s

// Two values that are partial over x: added first, they are reduced once.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @sum_of_parts
func.func @sum_of_parts(%arg0: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}, %arg1: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) -> tensor<64x48xf32> {
  %0 = "stablehlo.custom_call"(%arg0) {call_target_name = "part0", dtensor.results = [#dtensor.layout<@mesh, [{}, {}], partial = {sum: "x"}>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  %1 = "stablehlo.custom_call"(%arg1) {call_target_name = "part1", dtensor.results = [#dtensor.layout<@mesh, [{}, {}], partial = {sum: "x"}>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  // CHECK: %[[A:.*]] = stablehlo.custom_call @part0
  // CHECK: %[[B:.*]] = stablehlo.custom_call @part1
  // CHECK-NEXT: %[[S:.*]] = stablehlo.add %[[A]], %[[B]] {dtensor.results = [#dtensor.layout<@mesh, [{}, {}], partial = {sum: "x"}>]}
  // CHECK-NEXT: %[[R:.*]] = "dtensor.relayout"(%[[S]]) {{.*}}layout = #dtensor.layout<@mesh, [{"x"}, {}]>
  // CHECK-NEXT: return %[[R]]
  %2 = "dtensor.relayout"(%0) {layout = #dtensor.layout<@mesh, [{"x"}, {}]>, dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  %3 = "dtensor.relayout"(%1) {layout = #dtensor.layout<@mesh, [{"x"}, {}]>, dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  %4 = stablehlo.add %2, %3 {dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : tensor<64x48xf32>
  return %4 : tensor<64x48xf32>
}

// A product of sums is no sum of products.

// CHECK-LABEL: func.func @product_of_sums
func.func @product_of_sums(%arg0: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}, %arg1: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) -> tensor<64x48xf32> {
  %0 = "stablehlo.custom_call"(%arg0) {call_target_name = "part0", dtensor.results = [#dtensor.layout<@mesh, [{}, {}], partial = {sum: "x"}>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  %1 = "stablehlo.custom_call"(%arg1) {call_target_name = "part1", dtensor.results = [#dtensor.layout<@mesh, [{}, {}], partial = {sum: "x"}>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  // CHECK-COUNT-2: "dtensor.relayout"
  // CHECK-NEXT: stablehlo.multiply
  %2 = "dtensor.relayout"(%0) {layout = #dtensor.layout<@mesh, [{"x"}, {}]>, dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  %3 = "dtensor.relayout"(%1) {layout = #dtensor.layout<@mesh, [{"x"}, {}]>, dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  %4 = stablehlo.multiply %2, %3 {dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : tensor<64x48xf32>
  return %4 : tensor<64x48xf32>
}

// CHECK-LABEL: func.func @sum_of_maxima
func.func @sum_of_maxima(%arg0: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}, %arg1: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) -> tensor<64x48xf32> {
  %0 = "stablehlo.custom_call"(%arg0) {call_target_name = "part0", dtensor.results = [#dtensor.layout<@mesh, [{}, {}], partial = {max: "x"}>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  %1 = "stablehlo.custom_call"(%arg1) {call_target_name = "part1", dtensor.results = [#dtensor.layout<@mesh, [{}, {}], partial = {max: "x"}>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  // CHECK-COUNT-2: "dtensor.relayout"
  // CHECK-NEXT: stablehlo.add
  %2 = "dtensor.relayout"(%0) {layout = #dtensor.layout<@mesh, [{"x"}, {}]>, dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  %3 = "dtensor.relayout"(%1) {layout = #dtensor.layout<@mesh, [{"x"}, {}]>, dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  %4 = stablehlo.add %2, %3 {dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : tensor<64x48xf32>
  return %4 : tensor<64x48xf32>
}

// CHECK-LABEL: func.func @one_is_used_elsewhere
func.func @one_is_used_elsewhere(%arg0: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}, %arg1: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) -> (tensor<64x48xf32>, tensor<64x48xf32>) {
  %0 = "stablehlo.custom_call"(%arg0) {call_target_name = "part0", dtensor.results = [#dtensor.layout<@mesh, [{}, {}], partial = {sum: "x"}>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  %1 = "stablehlo.custom_call"(%arg1) {call_target_name = "part1", dtensor.results = [#dtensor.layout<@mesh, [{}, {}], partial = {sum: "x"}>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  // CHECK-COUNT-2: "dtensor.relayout"
  // CHECK-NEXT: stablehlo.add
  %2 = "dtensor.relayout"(%0) {layout = #dtensor.layout<@mesh, [{"x"}, {}]>, dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  %3 = "dtensor.relayout"(%1) {layout = #dtensor.layout<@mesh, [{"x"}, {}]>, dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
  %4 = stablehlo.add %2, %3 {dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : tensor<64x48xf32>
  return %4, %3 : tensor<64x48xf32>, tensor<64x48xf32>
}
