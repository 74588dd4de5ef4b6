// RUN: dtensor-opt %s --dtensor-print-rules 2>&1 | filecheck %s

// What is taken or updated whole is split with the result. Of what is cut at a computed place each
// shard gives the elements that it owns, and updates those.

func.func @one_layer(%a: tensor<6x4xf32>, %u: tensor<1x4xf32>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<6x4xf32> {
  // CHECK: remark: stablehlo.dynamic_slice: [a, b], [], [] -> [*, b] reduce {a: sum}; passes sum, _, _ -> sum
  %0 = stablehlo.dynamic_slice %a, %i, %j, sizes = [1, 4] : (tensor<6x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  // CHECK: remark: stablehlo.dynamic_update_slice: [a, b], [*, b], [], [] -> [a, b]; passes sum, sum, _, _ -> sum
  // CHECK-SAME: dimension 0 of operand 1 has 1 of 6 elements updated, from a computed place on
  %1 = stablehlo.dynamic_update_slice %a, %u, %i, %j : (tensor<6x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<6x4xf32>
  return %1 : tensor<6x4xf32>
}

// Shards of a type in which nothing is added cannot be put together by adding zero.

func.func @one_layer_of_eight_bits(%a: tensor<6x4xf8E4M3FNUZ>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<1x4xf8E4M3FNUZ> {
  // CHECK: remark: stablehlo.dynamic_slice: [*, a], [], [] -> [*, a]; dimension 0 of operand 0 shards of f8E4M3FNUZ cannot be added
  %0 = stablehlo.dynamic_slice %a, %i, %j, sizes = [1, 4] : (tensor<6x4xf8E4M3FNUZ>, tensor<i32>, tensor<i32>) -> tensor<1x4xf8E4M3FNUZ>
  return %0 : tensor<1x4xf8E4M3FNUZ>
}
