// RUN: dtensor-opt %s --split-input-file --mesh x=8 --dtensor-import --dtensor-fuse-cuts | filecheck %s

// What is padded alike along the rows, which are split, is added up before; then it is one splice.

// CHECK-LABEL: func.func @alike
// CHECK-DAG: %[[RIGHT:.*]] = "dtensor.splice"(%arg0, {{.*}}dim = 1 {{.*}} -> tensor<16x12xf32>
// CHECK-DAG: %[[LEFT:.*]] = "dtensor.splice"(%arg1, {{.*}}dim = 1 {{.*}} -> tensor<16x12xf32>
// CHECK: %[[SUM:.*]] = stablehlo.add %[[RIGHT]], %[[LEFT]]
// CHECK: "dtensor.splice"(%[[SUM]], {{.*}}dim = 0
// CHECK-NOT: "dtensor.splice"
func.func @alike(%a: tensor<16x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %b: tensor<16x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %c: tensor<16x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<16x12xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %converted = stablehlo.convert %none : (tensor<i32>) -> tensor<f32>
  %0 = stablehlo.pad %a, %zero, low = [2, 2], high = [0, 0], interior = [0, 0] : (tensor<16x12xf32>, tensor<f32>) -> tensor<18x14xf32>
  %1 = stablehlo.pad %b, %converted, low = [2, 0], high = [0, 2], interior = [0, 0] : (tensor<16x12xf32>, tensor<f32>) -> tensor<18x14xf32>
  %2 = stablehlo.pad %c, %zero, low = [1, 1], high = [1, 1], interior = [0, 0] : (tensor<16x12xf32>, tensor<f32>) -> tensor<18x14xf32>
  %3 = stablehlo.add %0, %1 : tensor<18x14xf32>
  %4 = stablehlo.add %3, %2 : tensor<18x14xf32>
  %5 = stablehlo.slice %4 [1:17, 1:13] : (tensor<18x14xf32>) -> tensor<16x12xf32>
  return %5 : tensor<16x12xf32>
}

// -----

// Not ones, not what somebody else reads, and not along columns, which are whole.

// CHECK-LABEL: func.func @others
// CHECK-COUNT-6: stablehlo.pad
func.func @others(%a: tensor<16x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %b: tensor<16x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<18x12xf32>, tensor<18x12xf32>, tensor<18x12xf32>, tensor<16x15xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %0 = stablehlo.pad %a, %one, low = [2, 0], high = [0, 0], interior = [0, 0] : (tensor<16x12xf32>, tensor<f32>) -> tensor<18x12xf32>
  %1 = stablehlo.pad %b, %one, low = [2, 0], high = [0, 0], interior = [0, 0] : (tensor<16x12xf32>, tensor<f32>) -> tensor<18x12xf32>
  %2 = stablehlo.add %0, %1 : tensor<18x12xf32>
  %3 = stablehlo.pad %a, %zero, low = [2, 0], high = [0, 0], interior = [0, 0] : (tensor<16x12xf32>, tensor<f32>) -> tensor<18x12xf32>
  %4 = stablehlo.pad %b, %zero, low = [2, 0], high = [0, 0], interior = [0, 0] : (tensor<16x12xf32>, tensor<f32>) -> tensor<18x12xf32>
  %5 = stablehlo.add %3, %4 : tensor<18x12xf32>
  %6 = stablehlo.pad %a, %zero, low = [0, 1], high = [0, 2], interior = [0, 0] : (tensor<16x12xf32>, tensor<f32>) -> tensor<16x15xf32>
  %7 = stablehlo.pad %b, %zero, low = [0, 1], high = [0, 2], interior = [0, 0] : (tensor<16x12xf32>, tensor<f32>) -> tensor<16x15xf32>
  %8 = stablehlo.add %6, %7 : tensor<16x15xf32>
  return %2, %5, %4, %8 : tensor<18x12xf32>, tensor<18x12xf32>, tensor<18x12xf32>, tensor<16x15xf32>
}
