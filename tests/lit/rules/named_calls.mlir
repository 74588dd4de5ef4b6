// RUN: dtensor-opt %s --dtensor-print-rules 2>&1 | filecheck %s

// XLA knows these calls by name, and JAX says nothing about their dimensions.

func.func private @comparator(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<i1> {
  %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}

func.func @main(%a: tensor<2x3x8xf32>, %i: tensor<2x3x8xi32>, %f: tensor<f32>, %n: tensor<i32>, %m: tensor<2x4x5x5xf32>, %t: tensor<2x4x5xf32>) {
  // CHECK: remark: stablehlo.custom_call: [a, *, b], [a, *, b], [], [] -> [a, *, b], [a, *, b];
  %0:2 = stablehlo.custom_call @ApproxTopK(%a, %i, %f, %n) {called_computations = [@comparator], mhlo.backend_config = {aggregate_to_topk = true, is_fallback = true, recall_target = 0.9 : f32, reduction_dim = 1 : i64, reduction_input_size_override = -1 : i64, top_k = 2 : i64}} : (tensor<2x3x8xf32>, tensor<2x3x8xi32>, tensor<f32>, tensor<i32>) -> (tensor<2x2x8xf32>, tensor<2x2x8xi32>)
  // Without its configuration nobody knows which dimension is searched.
  // CHECK: remark: stablehlo.custom_call: no rule
  %1:2 = stablehlo.custom_call @ApproxTopK(%a, %i, %f, %n) {called_computations = [@comparator]} : (tensor<2x3x8xf32>, tensor<2x3x8xi32>, tensor<f32>, tensor<i32>) -> (tensor<2x2x8xf32>, tensor<2x2x8xi32>)
  // CHECK: remark: stablehlo.custom_call: [a, b, *] -> [a, b, *], [a, b, *];
  %2:2 = stablehlo.custom_call @mhlo.topk(%a) {mhlo.attributes = {k = 2 : i64, largest = true}, mhlo.version = 1 : i64} : (tensor<2x3x8xf32>) -> (tensor<2x3x2xf32>, tensor<2x3x2xi32>)
  // CHECK: remark: stablehlo.custom_call: [a, b, *, *] -> [a, b, *, *], [a, b, *];
  %3:2 = stablehlo.custom_call @Eigh(%m) {backend_config = "1,1,100,1e-6"} : (tensor<2x4x5x5xf32>) -> (tensor<2x4x5x5xf32>, tensor<2x4x5xf32>)
  // CHECK: remark: stablehlo.custom_call: [a, b, *, *] -> [a, b, *, *], [a, b, *];
  %4:2 = stablehlo.custom_call @Qr(%m) : (tensor<2x4x5x5xf32>) -> (tensor<2x4x5x5xf32>, tensor<2x4x5xf32>)
  // CHECK: remark: stablehlo.custom_call: [a, b, *, *], [a, b, *] -> [a, b, *, *];
  %5 = stablehlo.custom_call @ProductOfElementaryHouseholderReflectors(%m, %t) : (tensor<2x4x5x5xf32>, tensor<2x4x5xf32>) -> tensor<2x4x5x5xf32>
  // CHECK: remark: stablehlo.custom_call: [a, b, *, *] -> [a, b, *, *], [a, b, *], [a, b, *];
  %6:3 = stablehlo.custom_call @LuDecomposition(%m) : (tensor<2x4x5x5xf32>) -> (tensor<2x4x5x5xf32>, tensor<2x4x5xi32>, tensor<2x4x5xi32>)
  // CHECK: remark: stablehlo.custom_call: [a, b, c] -> [a, b, c]{{$}}
  %7 = stablehlo.custom_call @annotate_device_placement(%a) {has_side_effect = true, mhlo.frontend_attributes = {_xla_buffer_placement = "pinned_host"}} : (tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  // CHECK: remark: stablehlo.custom_call: [a, b, c] -> [a, b, c]{{$}}
  %8 = stablehlo.custom_call @LayoutConstraint(%a) {operand_layouts = [dense<[0, 1, 2]> : tensor<3xindex>], result_layouts = [dense<[0, 1, 2]> : tensor<3xindex>]} : (tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  return
}
