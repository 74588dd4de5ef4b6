// RUN: dtensor-opt %s --dtensor-expand | filecheck %s

// The values of a region have local types like all others; a loop's init, arguments, yields and
// results share theirs.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @loop
// CHECK-SAME: %[[A:.*]]: tensor<4x3xf32>
func.func @loop(%a: tensor<8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
    -> (tensor<8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  %zero = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, []>]} dense<0> : tensor<i32>
  // CHECK: %[[LOOP:.*]]:2 = stablehlo.while(%{{.*}} = %{{.*}}, %[[CARRY:.*]] = %[[A]]) : tensor<i32>, tensor<4x3xf32>
  // CHECK-NOT: dtensor.results
  %0:2 = stablehlo.while(%i = %zero, %c = %a) : tensor<i32>, tensor<8x3xf32>
    attributes {dtensor.results = [#dtensor.layout<@mesh, []>, #dtensor.layout<@mesh, [{"x"}, {}]>]}
    cond {
      %n = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, []>]} dense<5> : tensor<i32>
      %1 = "stablehlo.compare"(%i, %n) {comparison_direction = #stablehlo<comparison_direction LT>, dtensor.results = [#dtensor.layout<@mesh, []>]} : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %one = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, []>]} dense<1> : tensor<i32>
      %1 = "stablehlo.add"(%i, %one) {dtensor.results = [#dtensor.layout<@mesh, []>]} : (tensor<i32>, tensor<i32>) -> tensor<i32>
      // CHECK: %[[NEXT:.*]] = stablehlo.tanh %[[CARRY]] : tensor<4x3xf32>
      %2 = "stablehlo.tanh"(%c) {dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<8x3xf32>) -> tensor<8x3xf32>
      // CHECK: stablehlo.return %{{.*}}, %[[NEXT]] : tensor<i32>, tensor<4x3xf32>
      stablehlo.return %1, %2 : tensor<i32>, tensor<8x3xf32>
    }
  // CHECK: return %[[LOOP]]#1 : tensor<4x3xf32>
  return %0#1 : tensor<8x3xf32>
}

// CHECK-LABEL: func.func @branches
func.func @branches(%k: tensor<i32> {dtensor.layout = #dtensor.layout<@mesh, []>}, %a: tensor<8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
    -> (tensor<8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // CHECK: "stablehlo.case"(%{{.*}}) ({
  %0 = "stablehlo.case"(%k) ({
    // CHECK: stablehlo.negate %{{.*}} : tensor<4x3xf32>
    %1 = "stablehlo.negate"(%a) {dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<8x3xf32>) -> tensor<8x3xf32>
    stablehlo.return %1 : tensor<8x3xf32>
  }, {
    // CHECK: stablehlo.constant dense<0.000000e+00> : tensor<4x3xf32>
    %1 = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} dense<0.0> : tensor<8x3xf32>
    stablehlo.return %1 : tensor<8x3xf32>
  // CHECK: }) : (tensor<i32>) -> tensor<4x3xf32>
  }) {dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<i32>) -> tensor<8x3xf32>
  return %0 : tensor<8x3xf32>
}

// The body of a reduce works on scalars and has no layouts.
// CHECK-LABEL: func.func @reduce
func.func @reduce(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}]>})
    -> (tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}], partial = {sum: "y"}>}) {
  %zero = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, [], partial = {sum: "y"}>]} dense<0.0> : tensor<f32>
  // CHECK: stablehlo.reduce(%{{.*}} init: %{{.*}}) applies stablehlo.add across dimensions = [1] : (tensor<4x3xf32>, tensor<f32>) -> tensor<4xf32>
  %0 = "stablehlo.reduce"(%a, %zero) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {dimensions = array<i64: 1>, dtensor.results = [#dtensor.layout<@mesh, [{"x"}], partial = {sum: "y"}>]} : (tensor<8x12xf32>, tensor<f32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
