// RUN: dtensor-opt %s --mesh x=2 --dtensor-prepare --dtensor-import | filecheck %s
// RUN: dtensor-opt %s --mesh x=2 --dtensor-spmd | filecheck %s --check-prefix=SPMD

// What a custom call names is called by the compiler of the machine: it stays to the end, and what
// it calls with it. Functions that nothing names any more go.

// CHECK-NOT: @twice
// CHECK: func.func private @less(
// CHECK: func.func @comparator(
// CHECK-NOT: @unused
// CHECK: func.func @step(
// SPMD-NOT: @twice
// SPMD: func.func private @less(
// SPMD: func.func @comparator(
// SPMD: stablehlo.custom_call @less_than({{.*}}) {called_computations = [@less]}
// SPMD-NOT: @unused
// SPMD: func.func @step(%{{.*}}: tensor<2x8xf32>
func.func private @twice(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = stablehlo.add %a, %a : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
func.func private @less(%a: tensor<f32>, %b: tensor<f32>) -> tensor<i1> {
  %0 = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}
// Public, as jax writes it; the module is still run at @step.
func.func @comparator(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<i1> {
  %0 = stablehlo.custom_call @less_than(%a, %b) {called_computations = [@less]} : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}
func.func private @unused(%a: tensor<f32>) -> tensor<f32> {
  return %a : tensor<f32>
}
func.func @step(%a: tensor<4x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<4x2xf32> {
  %i = stablehlo.iota dim = 1 : tensor<4x8xi32>
  %f = stablehlo.constant dense<0x7F800000> : tensor<f32>
  %n = stablehlo.constant dense<-1> : tensor<i32>
  %b = call @twice(%a) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // SPMD: stablehlo.custom_call @ApproxTopK({{.*}}called_computations = [@comparator]{{.*}} -> (tensor<2x2xf32>, tensor<2x2xi32>)
  %0:2 = stablehlo.custom_call @ApproxTopK(%b, %i, %f, %n) {called_computations = [@comparator], mhlo.backend_config = {aggregate_to_topk = true, is_fallback = true, recall_target = 0.9 : f32, reduction_dim = 1 : i64, reduction_input_size_override = -1 : i64, top_k = 2 : i64}} : (tensor<4x8xf32>, tensor<4x8xi32>, tensor<f32>, tensor<i32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
  return %0#0 : tensor<4x2xf32>
}
