// RUN: dtensor-opt %s | dtensor-opt | filecheck %s

// CHECK-LABEL: func.func @main
func.func @main(%t: tensor<8xf32>, %q: tensor<2x3xf32>, %s: tensor<2x3xi1>) -> tensor<2x3xui32> {
  // CHECK: "dtensor.search"(%{{.*}}, %{{.*}}, %{{.*}}) ({
  // CHECK: ^bb0(%{{.*}}: tensor<f32>, %{{.*}}: tensor<i1>, %{{.*}}: tensor<f32>):
  // CHECK: }) {count = 7 : i64} : (tensor<8xf32>, tensor<2x3xf32>, tensor<2x3xi1>) -> tensor<2x3xui32>
  %0 = "dtensor.search"(%t, %q, %s) ({
  ^bb0(%a: tensor<f32>, %b: tensor<i1>, %c: tensor<f32>):
    %1 = stablehlo.compare LE, %a, %c : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %2 = stablehlo.and %1, %b : tensor<i1>
    stablehlo.return %2 : tensor<i1>
  }) {count = 7 : i64} : (tensor<8xf32>, tensor<2x3xf32>, tensor<2x3xi1>) -> tensor<2x3xui32>
  return %0 : tensor<2x3xui32>
}
