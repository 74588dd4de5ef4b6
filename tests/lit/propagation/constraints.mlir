// RUN: dtensor-opt %s --mesh x=2,y=4 --split-input-file --dtensor-import --dtensor-propagate | filecheck %s

// CHECK-LABEL: func.func @a_closed_constraint_is_taken_exactly
// CHECK-SAME: -> (tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>})
func.func @a_closed_constraint_is_taken_exactly(%a: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}]>}) -> tensor<8x16xf32> {
  // CHECK: stablehlo.tanh %arg0 {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {"y"}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {"y"}]>]}
  %0 = stablehlo.tanh %a : tensor<8x16xf32>
  // CHECK: "dtensor.relayout"({{.*}}) {dtensor.operands = [#dtensor.layout<@mesh, [{}, {"x"}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}]>]
  %1 = "dtensor.relayout"(%0) {layout = #dtensor.layout<@mesh, [{}, {"x"}]>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  // CHECK: stablehlo.exponential {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}, {"x"}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}]>]}
  %2 = stablehlo.exponential %1 : tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}

// -----

// CHECK-LABEL: func.func @a_constraint_spreads_both_ways
// CHECK-SAME: %arg0: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}
// CHECK-SAME: -> (tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
func.func @a_constraint_spreads_both_ways(%a: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = stablehlo.tanh %a : tensor<8x16xf32>
  %1 = "dtensor.relayout"(%0) {layout = #dtensor.layout<@mesh, [{"x"}, {}]>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %2 = stablehlo.exponential %1 : tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}

// -----

// The open dimension takes what comes; the closed one is whole.
// CHECK-LABEL: func.func @an_open_dimension_takes_what_comes
// CHECK-SAME: -> (tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
func.func @an_open_dimension_takes_what_comes(%a: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}]>}) -> tensor<8x16xf32> {
  // CHECK: "dtensor.relayout"({{.*}}) {dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]
  %0 = "dtensor.relayout"(%a) {layout = #dtensor.layout<@mesh, [{?}, {}]>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}

// -----

// An open dimension with an axis keeps it and takes more behind it.
// CHECK-LABEL: func.func @an_open_prefix_stays_in_front
// CHECK-SAME: -> (tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x", "y"}, {}]>})
func.func @an_open_prefix_stays_in_front(%a: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x", "y"}, {}]>}) -> tensor<8x16xf32> {
  // CHECK: "dtensor.relayout"({{.*}}) {dtensor.operands = [#dtensor.layout<@mesh, [{"x", "y"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x", "y"}, {}]>]
  %0 = "dtensor.relayout"(%a) {layout = #dtensor.layout<@mesh, [{"x", ?}, {}]>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}

// -----

// A value may be asked for as parts of a sum, or in blocks.
// CHECK-LABEL: func.func @a_constraint_may_ask_for_parts
func.func @a_constraint_may_ask_for_parts(%a: tensor<12x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) -> (tensor<12x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  // CHECK: "dtensor.relayout"(%arg0) {dtensor.operands = [#dtensor.layout<@mesh, [{3, "y"}, {}], partial = {sum: "x"}>], dtensor.results = [#dtensor.layout<@mesh, [{3, "y"}, {}], partial = {sum: "x"}>]
  %0 = "dtensor.relayout"(%a) {layout = #dtensor.layout<@mesh, [{3, "y"}, {}], partial = {sum: "x"}>} : (tensor<12x4xf32>) -> tensor<12x4xf32>
  return %0 : tensor<12x4xf32>
}

// -----

// Axis y moves more bytes and is decided first, but x, which the layout says, stays in front: y
// cannot keep its place, and the rows of the argument are gathered.
// CHECK-LABEL: func.func @an_axis_decided_before_leaves_what_is_written_in_front
func.func @an_axis_decided_before_leaves_what_is_written_in_front(
    %a: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}, %large: tensor<64x64xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>})
    -> (tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}, tensor<64x64xf32>) {
  // CHECK: "dtensor.relayout"(%arg0) {dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]
  %0 = "dtensor.relayout"(%a) {layout = #dtensor.layout<@mesh, [{"x", ?}, {}]>} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %0, %large : tensor<8x16xf32>, tensor<64x64xf32>
}
