// RUN: dtensor-opt %s --split-input-file --mesh x=8 --dtensor-import --dtensor-fuse-cuts | filecheck %s

// The gradient of a reflected row: most rows of two shifts, and one row of each moved by itself. Those
// of single rows stand in one splice, of values as long as the sum.

// CHECK-LABEL: func.func @reflected
// CHECK: %[[NEG:.*]] = stablehlo.negate %arg0
// CHECK: %[[BACK:.*]] = "dtensor.splice"(%[[NEG]], %{{.*}}) {counts = array<i64: 31, 1>, dim = 0 : i64, sources = array<i64: 0, 1>, starts = array<i64: 1, 0>}
// CHECK: %[[ON:.*]] = "dtensor.splice"(%arg0, %{{.*}}) {counts = array<i64: 1, 31>, dim = 0 : i64, sources = array<i64: 1, 0>, starts = array<i64: 0, 0>}
// CHECK: %[[ROWS:.*]] = "dtensor.splice"(%[[NEG]], %arg0, %{{.*}}) {counts = array<i64: 1, 1, 28, 1, 1>, dim = 0 : i64, sources = array<i64: 2, 0, 2, 1, 2>, starts = array<i64: 0, 0, 0, 31, 0>}
// CHECK: %[[ZERO:.*]] = "dtensor.plus_zero"(%[[ROWS]])
// CHECK: %[[SUM:.*]] = stablehlo.add %[[BACK]], %[[ON]]
// CHECK: stablehlo.add %[[SUM]], %[[ZERO]]
// CHECK-NOT: stablehlo.pad
func.func @reflected(%a: tensor<32x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<32x6xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.negate %a : tensor<32x6xf32>
  %1 = stablehlo.pad %0, %zero, low = [0, 0], high = [2, 0], interior = [0, 0] : (tensor<32x6xf32>, tensor<f32>) -> tensor<34x6xf32>
  %2 = stablehlo.pad %a, %zero, low = [2, 0], high = [0, 0], interior = [0, 0] : (tensor<32x6xf32>, tensor<f32>) -> tensor<34x6xf32>
  %3 = stablehlo.add %1, %2 : tensor<34x6xf32>
  %4 = stablehlo.slice %3 [0:33, 0:6] : (tensor<34x6xf32>) -> tensor<33x6xf32>
  %5 = stablehlo.slice %3 [33:34, 0:6] : (tensor<34x6xf32>) -> tensor<1x6xf32>
  %6 = stablehlo.reverse %5, dims = [0] : tensor<1x6xf32>
  %7 = stablehlo.pad %6, %zero, low = [31, 0], high = [1, 0], interior = [0, 0] : (tensor<1x6xf32>, tensor<f32>) -> tensor<33x6xf32>
  %8 = stablehlo.add %4, %7 : tensor<33x6xf32>
  %9 = stablehlo.slice %8 [0:1, 0:6] : (tensor<33x6xf32>) -> tensor<1x6xf32>
  %10 = stablehlo.slice %8 [1:33, 0:6] : (tensor<33x6xf32>) -> tensor<32x6xf32>
  %11 = stablehlo.reverse %9, dims = [0] : tensor<1x6xf32>
  %12 = stablehlo.pad %11, %zero, low = [1, 0], high = [30, 0], interior = [0, 0] : (tensor<1x6xf32>, tensor<f32>) -> tensor<32x6xf32>
  %13 = stablehlo.add %10, %12 : tensor<32x6xf32>
  return %13 : tensor<32x6xf32>
}

// -----

// Where the rows at the ends go round, they go with those that are moved as they are.

// CHECK-LABEL: func.func @round
// CHECK: "dtensor.splice"(%[[NEG:.*]]) {counts = array<i64: 31, 1>, dim = 0 : i64, sources = array<i64: 0, 0>, starts = array<i64: 1, 0>}
// CHECK: "dtensor.splice"(%arg0) {counts = array<i64: 1, 31>, dim = 0 : i64, sources = array<i64: 0, 0>, starts = array<i64: 31, 0>}
// CHECK-NOT: "dtensor.splice"
func.func @round(%a: tensor<32x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<32x6xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.negate %a : tensor<32x6xf32>
  %1 = stablehlo.pad %0, %zero, low = [0, 0], high = [2, 0], interior = [0, 0] : (tensor<32x6xf32>, tensor<f32>) -> tensor<34x6xf32>
  %2 = stablehlo.pad %a, %zero, low = [2, 0], high = [0, 0], interior = [0, 0] : (tensor<32x6xf32>, tensor<f32>) -> tensor<34x6xf32>
  %3 = stablehlo.add %1, %2 : tensor<34x6xf32>
  %4 = stablehlo.slice %3 [0:1, 0:6] : (tensor<34x6xf32>) -> tensor<1x6xf32>
  %5 = stablehlo.slice %3 [1:33, 0:6] : (tensor<34x6xf32>) -> tensor<32x6xf32>
  %6 = stablehlo.slice %3 [33:34, 0:6] : (tensor<34x6xf32>) -> tensor<1x6xf32>
  %7 = stablehlo.pad %6, %zero, low = [0, 0], high = [31, 0], interior = [0, 0] : (tensor<1x6xf32>, tensor<f32>) -> tensor<32x6xf32>
  %8 = stablehlo.add %5, %7 : tensor<32x6xf32>
  %9 = stablehlo.pad %4, %zero, low = [31, 0], high = [0, 0], interior = [0, 0] : (tensor<1x6xf32>, tensor<f32>) -> tensor<32x6xf32>
  %10 = stablehlo.add %8, %9 : tensor<32x6xf32>
  return %10 : tensor<32x6xf32>
}

// -----

// Terms that are computed of slices are computed of all of it, and those that are moved alike added
// up before.

// CHECK-LABEL: func.func @of_slices
// CHECK-DAG: %[[TWO:.*]] = stablehlo.add %arg0, %arg0 : tensor<32x6xf32>
// CHECK-DAG: %[[NEG:.*]] = stablehlo.negate %arg0 : tensor<32x6xf32>
// CHECK: "dtensor.splice"(%[[TWO]], %[[NEG]]) {counts = array<i64: 31, 1>, dim = 0 : i64, sources = array<i64: 0, 1>, starts = array<i64: 1, 31>}
// CHECK-NOT: "dtensor.splice"
func.func @of_slices(%a: tensor<32x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<32x6xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.slice %a [1:32, 0:6] : (tensor<32x6xf32>) -> tensor<31x6xf32>
  %1 = stablehlo.pad %0, %zero, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<31x6xf32>, tensor<f32>) -> tensor<32x6xf32>
  %2 = stablehlo.slice %a [31:32, 0:6] : (tensor<32x6xf32>) -> tensor<1x6xf32>
  %3 = stablehlo.negate %2 : tensor<1x6xf32>
  %4 = stablehlo.pad %3, %zero, low = [31, 0], high = [0, 0], interior = [0, 0] : (tensor<1x6xf32>, tensor<f32>) -> tensor<32x6xf32>
  %5 = stablehlo.add %1, %4 : tensor<32x6xf32>
  %6 = stablehlo.add %5, %1 : tensor<32x6xf32>
  return %6 : tensor<32x6xf32>
}

// -----

// Not along columns, which are whole; not with ones; not where something is not of a value
// as long as the sum.

// CHECK-LABEL: func.func @others
// CHECK-NOT: "dtensor.splice"
// CHECK-COUNT-4: stablehlo.pad
// CHECK-NOT: "dtensor.splice"
func.func @others(%a: tensor<32x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %b: tensor<24x16xf32>, %c: tensor<1x16xf32>) -> (tensor<32x16xf32>, tensor<32x16xf32>, tensor<32x16xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %0 = stablehlo.slice %a [0:32, 0:1] : (tensor<32x16xf32>) -> tensor<32x1xf32>
  %1 = stablehlo.pad %0, %zero, low = [0, 15], high = [0, 0], interior = [0, 0] : (tensor<32x1xf32>, tensor<f32>) -> tensor<32x16xf32>
  %2 = stablehlo.add %a, %1 : tensor<32x16xf32>
  %3 = stablehlo.slice %a [0:1, 0:16] : (tensor<32x16xf32>) -> tensor<1x16xf32>
  %4 = stablehlo.pad %3, %one, low = [12, 0], high = [19, 0], interior = [0, 0] : (tensor<1x16xf32>, tensor<f32>) -> tensor<32x16xf32>
  %5 = stablehlo.add %a, %4 : tensor<32x16xf32>
  %6 = stablehlo.pad %b, %zero, low = [8, 0], high = [0, 0], interior = [0, 0] : (tensor<24x16xf32>, tensor<f32>) -> tensor<32x16xf32>
  %7 = stablehlo.pad %c, %zero, low = [30, 0], high = [1, 0], interior = [0, 0] : (tensor<1x16xf32>, tensor<f32>) -> tensor<32x16xf32>
  %8 = stablehlo.add %6, %7 : tensor<32x16xf32>
  return %2, %5, %8 : tensor<32x16xf32>, tensor<32x16xf32>, tensor<32x16xf32>
}
