// RUN: dtensor-opt %s -p dtensor-optimize-relayouts | filecheck %s
// RUN: dtensor-opt %s --dtensor-optimize-relayouts='hoist=false' | filecheck %s --check-prefix=OFF

// What a loop does not change is gathered once, in front of it.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @carried_and_yielded_as_it_came
func.func @carried_and_yielded_as_it_came(%arg0: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}, %arg1: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<64x48xf32> {
  // CHECK: %[[G:.*]] = "dtensor.relayout"(%arg1)
  // CHECK: stablehlo.while
  // CHECK-NOT: dtensor.relayout
  // CHECK: stablehlo.add %{{.*}}, %[[G]]
  // OFF: stablehlo.while
  // OFF: "dtensor.relayout"
  %zero = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, []>]} dense<0> : tensor<i32>
  %r:3 = "stablehlo.while"(%zero, %arg0, %arg1) ({
  ^bb0(%i: tensor<i32>, %v: tensor<64x48xf32>, %w: tensor<64x48xf32>):
    %limit = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, []>]} dense<9> : tensor<i32>
    %c = stablehlo.compare LT, %i, %limit {dtensor.results = [#dtensor.layout<@mesh, []>]} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%i: tensor<i32>, %v: tensor<64x48xf32>, %w: tensor<64x48xf32>):
    %one = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, []>]} dense<1> : tensor<i32>
    %n = stablehlo.add %i, %one {dtensor.results = [#dtensor.layout<@mesh, []>]} : tensor<i32>
    %g = "dtensor.relayout"(%w) {layout = #dtensor.layout<@mesh, [{}, {}]>, dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
    %s = stablehlo.add %v, %g {dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]} : tensor<64x48xf32>
    stablehlo.return %n, %s, %w : tensor<i32>, tensor<64x48xf32>, tensor<64x48xf32>
  }) {dtensor.results = [#dtensor.layout<@mesh, []>, #dtensor.layout<@mesh, [{}, {}]>, #dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<i32>, tensor<64x48xf32>, tensor<64x48xf32>) -> (tensor<i32>, tensor<64x48xf32>, tensor<64x48xf32>)
  return %r#1 : tensor<64x48xf32>
}

// CHECK-LABEL: func.func @defined_outside
func.func @defined_outside(%arg0: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}, %arg1: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<64x48xf32> {
  // CHECK: "dtensor.relayout"(%arg1)
  // CHECK: stablehlo.while
  // CHECK-NOT: dtensor.relayout
  // CHECK: return
  %zero = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, []>]} dense<0> : tensor<i32>
  %r:3 = "stablehlo.while"(%zero, %arg0, %arg1) ({
  ^bb0(%i: tensor<i32>, %v: tensor<64x48xf32>, %w: tensor<64x48xf32>):
    %limit = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, []>]} dense<9> : tensor<i32>
    %c = stablehlo.compare LT, %i, %limit {dtensor.results = [#dtensor.layout<@mesh, []>]} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%i: tensor<i32>, %v: tensor<64x48xf32>, %w: tensor<64x48xf32>):
    %one = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, []>]} dense<1> : tensor<i32>
    %n = stablehlo.add %i, %one {dtensor.results = [#dtensor.layout<@mesh, []>]} : tensor<i32>
    %g = "dtensor.relayout"(%arg1) {layout = #dtensor.layout<@mesh, [{}, {}]>, dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
    %s = stablehlo.add %v, %g {dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]} : tensor<64x48xf32>
    stablehlo.return %n, %s, %w : tensor<i32>, tensor<64x48xf32>, tensor<64x48xf32>
  }) {dtensor.results = [#dtensor.layout<@mesh, []>, #dtensor.layout<@mesh, [{}, {}]>, #dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<i32>, tensor<64x48xf32>, tensor<64x48xf32>) -> (tensor<i32>, tensor<64x48xf32>, tensor<64x48xf32>)
  return %r#1 : tensor<64x48xf32>
}

// CHECK-LABEL: func.func @changed_by_the_loop
func.func @changed_by_the_loop(%arg0: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}, %arg1: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<64x48xf32> {
  // CHECK: stablehlo.while
  // CHECK: "dtensor.relayout"
  %zero = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, []>]} dense<0> : tensor<i32>
  %r:3 = "stablehlo.while"(%zero, %arg0, %arg1) ({
  ^bb0(%i: tensor<i32>, %v: tensor<64x48xf32>, %w: tensor<64x48xf32>):
    %limit = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, []>]} dense<9> : tensor<i32>
    %c = stablehlo.compare LT, %i, %limit {dtensor.results = [#dtensor.layout<@mesh, []>]} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%i: tensor<i32>, %v: tensor<64x48xf32>, %w: tensor<64x48xf32>):
    %one = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, []>]} dense<1> : tensor<i32>
    %n = stablehlo.add %i, %one {dtensor.results = [#dtensor.layout<@mesh, []>]} : tensor<i32>
    %g = "dtensor.relayout"(%w) {layout = #dtensor.layout<@mesh, [{}, {}]>, dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
    %m = stablehlo.add %w, %w {dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : tensor<64x48xf32>
    %s = stablehlo.add %v, %g {dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]} : tensor<64x48xf32>
    stablehlo.return %n, %s, %m : tensor<i32>, tensor<64x48xf32>, tensor<64x48xf32>
  }) {dtensor.results = [#dtensor.layout<@mesh, []>, #dtensor.layout<@mesh, [{}, {}]>, #dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<i32>, tensor<64x48xf32>, tensor<64x48xf32>) -> (tensor<i32>, tensor<64x48xf32>, tensor<64x48xf32>)
  return %r#1 : tensor<64x48xf32>
}

// CHECK-LABEL: func.func @a_slice_costs_nothing_inside
func.func @a_slice_costs_nothing_inside(%arg0: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}, %arg1: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<64x48xf32> {
  // CHECK: stablehlo.while
  // CHECK: "dtensor.relayout"
  %zero = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, []>]} dense<0> : tensor<i32>
  %r:3 = "stablehlo.while"(%zero, %arg0, %arg1) ({
  ^bb0(%i: tensor<i32>, %v: tensor<64x48xf32>, %w: tensor<64x48xf32>):
    %limit = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, []>]} dense<9> : tensor<i32>
    %c = stablehlo.compare LT, %i, %limit {dtensor.results = [#dtensor.layout<@mesh, []>]} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%i: tensor<i32>, %v: tensor<64x48xf32>, %w: tensor<64x48xf32>):
    %one = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, []>]} dense<1> : tensor<i32>
    %n = stablehlo.add %i, %one {dtensor.results = [#dtensor.layout<@mesh, []>]} : tensor<i32>
    %g = "dtensor.relayout"(%w) {layout = #dtensor.layout<@mesh, [{"x", "y"}, {}]>, dtensor.results = [#dtensor.layout<@mesh, [{"x", "y"}, {}]>]} : (tensor<64x48xf32>) -> tensor<64x48xf32>
    %h = stablehlo.add %g, %g {dtensor.results = [#dtensor.layout<@mesh, [{"x", "y"}, {}]>]} : tensor<64x48xf32>
    stablehlo.return %n, %v, %w : tensor<i32>, tensor<64x48xf32>, tensor<64x48xf32>
  }) {dtensor.results = [#dtensor.layout<@mesh, []>, #dtensor.layout<@mesh, [{}, {}]>, #dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<i32>, tensor<64x48xf32>, tensor<64x48xf32>) -> (tensor<i32>, tensor<64x48xf32>, tensor<64x48xf32>)
  return %r#1 : tensor<64x48xf32>
}
