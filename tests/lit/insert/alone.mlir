// RUN: dtensor-opt %s --split-input-file --dtensor-insert-relayouts | filecheck %s

// The pass runs alone, on strategies that were written by hand.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // CHECK: %[[R:.*]] = "dtensor.relayout"(%arg0) {dtensor.results = [#dtensor.layout<@mesh, [{}, {"y"}]>], layout = #dtensor.layout<@mesh, [{}, {"y"}]>}
  // CHECK: %[[T:.*]] = stablehlo.tanh %[[R]] {dtensor.results = [#dtensor.layout<@mesh, [{}, {"y"}]>]}
  %0 = stablehlo.tanh %a {dtensor.operands = [#dtensor.layout<@mesh, [{}, {"y"}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {"y"}]>]} : tensor<8x16xf32>
  // CHECK: %[[S:.*]] = "dtensor.relayout"(%[[T]]) {dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>], layout = #dtensor.layout<@mesh, [{"x"}, {}]>}
  // CHECK: return %[[S]]
  return %0 : tensor<8x16xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// What enters a loop is moved once, before it; what is yielded, inside; what comes out, behind.
// CHECK-LABEL: func.func @edges_of_a_loop
func.func @edges_of_a_loop(%a: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  // CHECK-NEXT: %[[IN:.*]] = "dtensor.relayout"(%arg0) {dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}]>]
  %zero = stablehlo.constant {dtensor.operands = [], dtensor.results = [#dtensor.layout<@mesh, []>]} dense<0> : tensor<i32>
  %one = stablehlo.constant {dtensor.operands = [], dtensor.results = [#dtensor.layout<@mesh, []>]} dense<1> : tensor<i32>
  %end = stablehlo.constant {dtensor.operands = [], dtensor.results = [#dtensor.layout<@mesh, []>]} dense<5> : tensor<i32>
  // CHECK: %[[OUT:.*]]:2 = stablehlo.while({{.*}}, %[[C:.*]] = %[[IN]]) {{.*}} attributes {dtensor.results = [#dtensor.layout<@mesh, []>, #dtensor.layout<@mesh, [{}, {"x"}]>]}
  %0:2 = stablehlo.while(%i = %zero, %c = %a) : tensor<i32>, tensor<8x16xf32>
    attributes {dtensor.operands = [#dtensor.layout<@mesh, []>, #dtensor.layout<@mesh, [{}, {"x"}]>], dtensor.results = [#dtensor.layout<@mesh, []>, #dtensor.layout<@mesh, [{}, {"x"}]>]}
    cond {
      %p = stablehlo.compare LT, %i, %end {dtensor.operands = [#dtensor.layout<@mesh, []>, #dtensor.layout<@mesh, []>], dtensor.results = [#dtensor.layout<@mesh, []>]} : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      // CHECK: } do {
      // CHECK-NEXT: %[[ROWS:.*]] = "dtensor.relayout"(%[[C]]) {dtensor.results = [#dtensor.layout<@mesh, [{"y"}, {}]>]
      // CHECK-NEXT: %[[T:.*]] = stablehlo.tanh %[[ROWS]] {dtensor.results = [#dtensor.layout<@mesh, [{"y"}, {}]>]}
      %1 = stablehlo.tanh %c {dtensor.operands = [#dtensor.layout<@mesh, [{"y"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{"y"}, {}]>]} : tensor<8x16xf32>
      // CHECK-NEXT: %[[BACK:.*]] = "dtensor.relayout"(%[[T]]) {dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}]>]
      %2 = stablehlo.add %i, %one {dtensor.operands = [#dtensor.layout<@mesh, []>, #dtensor.layout<@mesh, []>], dtensor.results = [#dtensor.layout<@mesh, []>]} : tensor<i32>
      // CHECK: stablehlo.return %{{.*}}, %[[BACK]]
      stablehlo.return %2, %1 : tensor<i32>, tensor<8x16xf32>
    }
  // CHECK: %[[R:.*]] = "dtensor.relayout"(%[[OUT]]#1) {dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]
  // CHECK: return %[[R]]
  return %0#1 : tensor<8x16xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// Operands of a barrier are moved one by one.
// CHECK-LABEL: func.func @edges_of_a_barrier
func.func @edges_of_a_barrier(%a: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}, %b: tensor<4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>})
    -> (tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}, tensor<4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}) {
  // CHECK: %[[B:.*]] = "dtensor.relayout"(%arg1) {dtensor.results = [#dtensor.layout<@mesh, [{}]>]
  // CHECK: stablehlo.optimization_barrier {dtensor.results = [#dtensor.layout<@mesh, [{"x"}]>, #dtensor.layout<@mesh, [{}]>]} %arg0, %[[B]]
  %0:2 = stablehlo.optimization_barrier {dtensor.operands = [#dtensor.layout<@mesh, [{"x"}]>, #dtensor.layout<@mesh, [{}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}]>, #dtensor.layout<@mesh, [{}]>]} %a, %b : tensor<8xf32>, tensor<4xf32>
  return %0#0, %0#1 : tensor<8xf32>, tensor<4xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// What a branch yields is moved in the branch that made it, or where it was made before.
// CHECK-LABEL: func.func @edges_of_a_branch
func.func @edges_of_a_branch(%p: tensor<i1> {dtensor.layout = #dtensor.layout<@mesh, []>}, %a: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) -> (tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>}) {
  // CHECK: %[[OUTSIDE:.*]] = "dtensor.relayout"(%arg1) {dtensor.results = [#dtensor.layout<@mesh, [{"y"}]>]
  // CHECK: "stablehlo.if"
  %0 = "stablehlo.if"(%p) ({
    // CHECK: %[[T:.*]] = stablehlo.tanh %arg1 {dtensor.results = [#dtensor.layout<@mesh, [{"x"}]>]}
    %1 = stablehlo.tanh %a {dtensor.operands = [#dtensor.layout<@mesh, [{"x"}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}]>]} : tensor<8xf32>
    // CHECK-NEXT: %[[INSIDE:.*]] = "dtensor.relayout"(%[[T]]) {dtensor.results = [#dtensor.layout<@mesh, [{"y"}]>]
    // CHECK-NEXT: stablehlo.return %[[INSIDE]]
    stablehlo.return %1 : tensor<8xf32>
  }, {
    // CHECK: stablehlo.return %[[OUTSIDE]]
    stablehlo.return %a : tensor<8xf32>
  // CHECK: }) {dtensor.results = [#dtensor.layout<@mesh, [{"y"}]>]}
  }) {dtensor.operands = [#dtensor.layout<@mesh, []>], dtensor.results = [#dtensor.layout<@mesh, [{"y"}]>]} : (tensor<i1>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
