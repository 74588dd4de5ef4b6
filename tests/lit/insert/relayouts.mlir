// RUN: dtensor-opt %s --mesh x=2,y=4 --split-input-file --dtensor-import --dtensor-propagate --dtensor-insert-relayouts | filecheck %s

// A relayout stands behind the producer of a value that some use wants in another layout.

// CHECK-LABEL: func.func @what_agrees_is_left_alone
func.func @what_agrees_is_left_alone(%a: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<8x16xf32> {
  // CHECK-NOT: dtensor.relayout
  // CHECK-NOT: dtensor.operands
  // CHECK: stablehlo.tanh %arg0 {dtensor.algorithm = "local", dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]}
  %0 = stablehlo.tanh %a : tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}

// -----

// CHECK-LABEL: func.func @behind_the_producer
func.func @behind_the_producer(%a: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}) {
  // CHECK: %[[T:.*]] = stablehlo.tanh %arg0
  // CHECK-NEXT: %[[R:.*]] = "dtensor.relayout"(%[[T]]) {dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}]>], layout = #dtensor.layout<@mesh, [{}, {"x"}]>}
  %0 = stablehlo.tanh %a : tensor<8x16xf32>
  // CHECK-NEXT: %[[E:.*]] = stablehlo.exponential %[[T]]
  %1 = stablehlo.exponential %0 : tensor<8x16xf32>
  // CHECK-NEXT: return %[[E]], %[[R]]
  return %1, %0 : tensor<8x16xf32>, tensor<8x16xf32>
}

// -----

// An argument is moved at the top of the function, where it is known.
// CHECK-LABEL: func.func @at_the_top_for_an_argument
func.func @at_the_top_for_an_argument(
    %a: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %b: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>})
    -> (tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // CHECK-NEXT: %[[B:.*]] = "dtensor.relayout"(%arg1) {dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]
  %0 = stablehlo.tanh %a : tensor<8x16xf32>
  // CHECK: stablehlo.add %{{.*}}, %[[B]]
  %1 = stablehlo.add %0, %b : tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}

// -----

// CHECK-LABEL: func.func @two_uses_share_one
func.func @two_uses_share_one(%a: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
    -> (tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}, tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  // CHECK: %[[R:.*]] = "dtensor.relayout"(%arg0) {dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]
  // CHECK-NOT: dtensor.relayout
  // CHECK: return %[[R]], %[[R]]
  return %a, %a : tensor<8x16xf32>, tensor<8x16xf32>
}

// -----

// One use wants all of it, one the columns: those are sliced from the gathered copy, for nothing.
// CHECK-LABEL: func.func @one_relayout_starts_from_another
func.func @one_relayout_starts_from_another(%a: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
    -> (tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}, tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  // CHECK: %[[WHOLE:.*]] = "dtensor.relayout"(%arg0) {dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]
  // CHECK: %[[COLUMNS:.*]] = "dtensor.relayout"(%[[WHOLE]]) {dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}]>]
  // CHECK: return %[[COLUMNS]], %[[WHOLE]]
  return %a, %a : tensor<8x16xf32>, tensor<8x16xf32>
}

// -----

// A result that was planned in blocks is brought to the border's form.
// CHECK-LABEL: func.func @blocks_end_at_the_border
func.func @blocks_end_at_the_border(%a: tensor<3x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}) -> tensor<24xf32> {
  // CHECK: %[[F:.*]] = stablehlo.reshape %arg0 {dtensor.algorithm = "local", dtensor.results = [#dtensor.layout<@mesh, [{3, "x"}]>]}
  // CHECK: %[[R:.*]] = "dtensor.relayout"(%[[F]]) {dtensor.results = [#dtensor.layout<@mesh, [{"x"}]>]
  // CHECK: return %[[R]]
  %0 = stablehlo.reshape %a : (tensor<3x8xf32>) -> tensor<24xf32>
  return %0 : tensor<24xf32>
}

// -----

// CHECK-LABEL: func.func @a_reduction_is_a_relayout_of_parts
func.func @a_reduction_is_a_relayout_of_parts(%a: tensor<8x64xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}, %w: tensor<64x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  // CHECK: %[[P:.*]] = stablehlo.dot_general {{.*}} {dtensor.algorithm = "local", dtensor.results = [#dtensor.layout<@mesh, [{}, {}], partial = {sum: "x"}>]}
  // CHECK-NEXT: %[[S:.*]] = "dtensor.relayout"(%[[P]]) {dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>], layout = #dtensor.layout<@mesh, [{}, {}]>}
  // CHECK-NEXT: return %[[S]]
  %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}
