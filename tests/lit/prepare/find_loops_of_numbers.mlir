// RUN: dtensor-opt %s -p dtensor-import,dtensor-find-forms | filecheck %s

// Of this loop only the numbers that it writes are read: they are said, and the loop goes.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()
// CHECK-LABEL: func.func @main
// CHECK: stablehlo.iota
// CHECK-NOT: stablehlo.while
func.func @main(%x: tensor<32x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<32xi32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %n = stablehlo.constant dense<32> : tensor<i32>
  %none = stablehlo.constant dense<0> : tensor<32xi32>
  %a:3 = stablehlo.while(%i = %zero, %c = %x, %k = %none) : tensor<i32>, tensor<32x3xf32>, tensor<32xi32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %place = stablehlo.reshape %i : (tensor<i32>) -> tensor<1xi32>
    %r = stablehlo.dynamic_slice %x, %i, %zero, sizes = [1, 3] : (tensor<32x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
    %s = stablehlo.dynamic_slice %c, %i, %zero, sizes = [1, 3] : (tensor<32x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
    %t = stablehlo.multiply %r, %s : tensor<1x3xf32>
    %row = stablehlo.reshape %t : (tensor<1x3xf32>) -> tensor<3xf32>
    %e = "stablehlo.scatter"(%c, %place, %row) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]>, unique_indices = true}> ({
    ^bb0(%u: tensor<f32>, %v: tensor<f32>):
      %w = stablehlo.add %u, %v : tensor<f32>
      stablehlo.return %w : tensor<f32>
    }) : (tensor<32x3xf32>, tensor<1xi32>, tensor<3xf32>) -> tensor<32x3xf32>
    %number = stablehlo.multiply %i, %three : tensor<i32>
    %numbers = stablehlo.reshape %number : (tensor<i32>) -> tensor<1xi32>
    %f = stablehlo.dynamic_update_slice %k, %numbers, %i : (tensor<32xi32>, tensor<1xi32>, tensor<i32>) -> tensor<32xi32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %e, %f : tensor<i32>, tensor<32x3xf32>, tensor<32xi32>
  }
  return %a#2 : tensor<32xi32>
}
