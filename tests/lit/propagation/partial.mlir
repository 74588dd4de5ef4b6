// RUN: dtensor-opt %s --mesh x=4 --split-input-file --dtensor-import --dtensor-propagate | filecheck %s

// Reductions come late: parts pass through what is linear in them, and meet.

// CHECK-LABEL: func.func @a_sum_of_two_parts_is_reduced_once
func.func @a_sum_of_two_parts_is_reduced_once(
    %a: tensor<8x64xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}, %v: tensor<64x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>},
    %w: tensor<64x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  // CHECK: stablehlo.dot_general %arg0, %arg1, {{.*}} dtensor.results = [#dtensor.layout<@mesh, [{}, {}], partial = {sum: "x"}>]}
  %0 = stablehlo.dot_general %a, %v, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
  %1 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
  // CHECK: stablehlo.add {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}, {}], partial = {sum: "x"}>, #dtensor.layout<@mesh, [{}, {}], partial = {sum: "x"}>], dtensor.results = [#dtensor.layout<@mesh, [{}, {}], partial = {sum: "x"}>]}
  %2 = stablehlo.add %0, %1 : tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}

// -----

// CHECK-LABEL: func.func @parts_pass_through_a_transpose
func.func @parts_pass_through_a_transpose(%a: tensor<8x64x2xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}) -> (tensor<2x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  // CHECK: stablehlo.reduce{{.*}} dtensor.results = [#dtensor.layout<@mesh, [{}, {}], partial = {sum: "x"}>]}
  %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x64x2xf32>, tensor<f32>) -> tensor<8x2xf32>
  // CHECK: stablehlo.transpose {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}, {}], partial = {sum: "x"}>], dtensor.results = [#dtensor.layout<@mesh, [{}, {}], partial = {sum: "x"}>]}
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<8x2xf32>) -> tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}

// -----

// The initial value of a reduction counts once: it is on one shard, and nothing on the others.
// CHECK-LABEL: func.func @an_initial_value_counts_once
func.func @an_initial_value_counts_once(%a: tensor<64xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}, %init: tensor<f32>) -> tensor<f32> {
  // CHECK: stablehlo.reduce{{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{"x"}]>, #dtensor.layout<@mesh, [], partial = {sum: "x"}>], dtensor.results = [#dtensor.layout<@mesh, [], partial = {sum: "x"}>]}
  %0 = stablehlo.reduce(%a init: %init) applies stablehlo.add across dimensions = [0] : (tensor<64xf32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @negation_makes_the_smallest_of_the_largest
func.func @negation_makes_the_smallest_of_the_largest(%a: tensor<8x64xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}) -> (tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}) {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  // CHECK: stablehlo.reduce{{.*}} dtensor.results = [#dtensor.layout<@mesh, [{}], partial = {max: "x"}>]}
  %0 = stablehlo.reduce(%a init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<8x64xf32>, tensor<f32>) -> tensor<8xf32>
  // CHECK: stablehlo.negate {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}], partial = {max: "x"}>], dtensor.results = [#dtensor.layout<@mesh, [{}], partial = {min: "x"}>]}
  %1 = stablehlo.negate %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}

// -----

// exp(a + b) is not exp(a) + exp(b): it needs the sum.
// CHECK-LABEL: func.func @what_is_not_linear_needs_the_sum
func.func @what_is_not_linear_needs_the_sum(%a: tensor<8x64xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}) -> (tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  // CHECK: stablehlo.reduce{{.*}} dtensor.results = [#dtensor.layout<@mesh, [{}], partial = {sum: "x"}>]}
  %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x64xf32>, tensor<f32>) -> tensor<8xf32>
  // CHECK: stablehlo.exponential {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}]>], dtensor.results = [#dtensor.layout<@mesh, [{}]>]}
  %1 = stablehlo.exponential %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}

// -----

// A product with a complete factor is linear in the parts, if it is finite.
// CHECK-LABEL: func.func @parts_times_a_constant
func.func @parts_times_a_constant(%a: tensor<8x64xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}) -> (tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.constant dense<0.5> : tensor<8xf32>
  %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x64xf32>, tensor<f32>) -> tensor<8xf32>
  // CHECK: stablehlo.multiply {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}], partial = {sum: "x"}>, #dtensor.layout<@mesh, [{}]>], dtensor.results = [#dtensor.layout<@mesh, [{}], partial = {sum: "x"}>]}
  %1 = stablehlo.multiply %0, %s : tensor<8xf32>
  return %1 : tensor<8xf32>
}

// -----

// One part may be zero where the sum is not, and zero times infinity is NaN.
// CHECK-LABEL: func.func @parts_times_what_may_be_infinite
func.func @parts_times_what_may_be_infinite(%a: tensor<8x64xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}, %s: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}) -> (tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x64xf32>, tensor<f32>) -> tensor<8xf32>
  // CHECK: stablehlo.multiply {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}]>, #dtensor.layout<@mesh, [{}]>], dtensor.results = [#dtensor.layout<@mesh, [{}]>]}
  %1 = stablehlo.multiply %0, %s : tensor<8xf32>
  return %1 : tensor<8xf32>
}

// -----

// A result that is wanted split is reduced and split at once, where the parts were made.
// CHECK-LABEL: func.func @parts_that_are_wanted_split
func.func @parts_that_are_wanted_split(%a: tensor<8x64xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}, %w: tensor<64x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // CHECK: stablehlo.dot_general {{.*}} dtensor.results = [#dtensor.layout<@mesh, [{}, {}], partial = {sum: "x"}>]}
  %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
  // CHECK: stablehlo.tanh {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]}
  %1 = stablehlo.tanh %0 : tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}
