// RUN: dtensor-opt %s --dtensor-expand | filecheck %s

// Each relayout becomes the cheapest steps; what costs nothing leaves nothing behind.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @gathered
func.func @gathered(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}]>})
    -> (tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // CHECK-NEXT: %[[ALL:.*]] = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 1 : i64} : (tensor<4x3xf32>) -> tensor<4x12xf32>
  // CHECK-NEXT: return %[[ALL]]
  %0 = "dtensor.relayout"(%a) {layout = #dtensor.layout<@mesh, [{"x"}, {}]>} : (tensor<8x12xf32>) -> tensor<8x12xf32>
  return %0 : tensor<8x12xf32>
}

// CHECK-LABEL: func.func @to_the_same_layout
func.func @to_the_same_layout(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
    -> (tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // CHECK-NEXT: return %arg0
  %0 = "dtensor.relayout"(%a) {layout = #dtensor.layout<@mesh, [{"x"}, {?}]>, dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<8x12xf32>) -> tensor<8x12xf32>
  return %0 : tensor<8x12xf32>
}

// A complete value becomes a part of a sum on the first device only.
// CHECK-LABEL: func.func @masked
func.func @masked(%a: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>})
    -> (tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}], partial = {sum: "x"}>}) {
  // CHECK: "dtensor.axis_index"
  // CHECK: stablehlo.select
  %0 = "dtensor.relayout"(%a) {layout = #dtensor.layout<@mesh, [{}], partial = {sum: "x"}>} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// Zero is a part of a sum as it stands.
// CHECK-LABEL: func.func @zero
func.func @zero() -> (tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}], partial = {sum: "x"}>}) {
  // CHECK-NOT: stablehlo.select
  // CHECK: %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<2x12xf32>
  // CHECK-NEXT: return %[[ZERO]]
  %0 = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, []>]} dense<0.0> : tensor<f32>
  %1 = "stablehlo.broadcast_in_dim"(%0) {broadcast_dimensions = array<i64>, dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]} : (tensor<f32>) -> tensor<8x12xf32>
  %2 = "dtensor.relayout"(%1) {layout = #dtensor.layout<@mesh, [{"y"}, {}], partial = {sum: "x"}>} : (tensor<8x12xf32>) -> tensor<8x12xf32>
  return %2 : tensor<8x12xf32>
}

// But a one is not.
// CHECK-LABEL: func.func @one
func.func @one() -> (tensor<f32> {dtensor.layout = #dtensor.layout<@mesh, [], partial = {sum: "x"}>}) {
  // CHECK: stablehlo.select
  %0 = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, []>]} dense<1.0> : tensor<f32>
  %1 = "dtensor.relayout"(%0) {layout = #dtensor.layout<@mesh, [], partial = {sum: "x"}>} : (tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// A value is a part of its own maximum on every device.
// CHECK-LABEL: func.func @maximum
func.func @maximum(%a: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>})
    -> (tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}], partial = {max: "x"}>}) {
  // CHECK-NEXT: return %arg0
  %0 = "dtensor.relayout"(%a) {layout = #dtensor.layout<@mesh, [{"y"}], partial = {max: "x"}>} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// Who reads it as it was still does.
// CHECK-LABEL: func.func @both
func.func @both(%a: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>})
    -> (tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}], partial = {max: "x"}>},
        tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>}) {
  // CHECK-NEXT: return %arg0, %arg0
  %0 = "dtensor.relayout"(%a) {layout = #dtensor.layout<@mesh, [{"y"}], partial = {max: "x"}>} : (tensor<8xf32>) -> tensor<8xf32>
  return %0, %a : tensor<8xf32>, tensor<8xf32>
}

// So is any constant.
// CHECK-LABEL: func.func @constant_maximum
func.func @constant_maximum() -> (tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}) {
  // CHECK-NOT: dtensor.all_reduce
  // CHECK: %[[C:.*]] = stablehlo.constant dense<5.000000e+00> : tensor<8xf32>
  // CHECK-NEXT: return %[[C]]
  %0 = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, [{"y"}], partial = {max: "x"}>]} dense<5.0> : tensor<8xf32>
  %1 = "dtensor.relayout"(%0) {layout = #dtensor.layout<@mesh, [{}]>} : (tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// Nothing is moved without elements; and no zero is repeated, by which XLA would divide.
// CHECK-LABEL: func.func @nothing
func.func @nothing(%a: tensor<0x4xi32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>})
    -> (tensor<0x4xi32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  // CHECK-NEXT: %[[NOTHING:.*]] = stablehlo.constant dense<> : tensor<0x4xi32>
  // CHECK-NEXT: return %[[NOTHING]]
  %0 = "dtensor.relayout"(%a) {layout = #dtensor.layout<@mesh, [{}, {}]>} : (tensor<0x4xi32>) -> tensor<0x4xi32>
  return %0 : tensor<0x4xi32>
}
