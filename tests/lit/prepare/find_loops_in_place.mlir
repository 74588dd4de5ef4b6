// RUN: dtensor-opt %s -p dtensor-import,dtensor-find-forms | filecheck %s

// Each trip adds the row that the trip before it wrote, `y.at[i].add(y[i - 1] * x[i])`: that row is
// carried, and the blocks run side by side. The first row of y stays.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()
// CHECK: func.func @main(%[[X:.*]]: tensor<32x3xf32> {{.*}}, %[[Y:.*]]: tensor<32x3xf32>)
// CHECK: stablehlo.slice %[[Y]] [0:1, 0:3]
// CHECK: stablehlo.slice %[[X]] [1:32, 0:3]
// CHECK: stablehlo.slice %[[Y]] [1:32, 0:3]
// CHECK: "dtensor.scan"
// CHECK-NOT: stablehlo.scatter
// CHECK: %[[MINE:.*]] = stablehlo.and %{{.*}}, %{{.*}} : tensor<32x3xi1>
// CHECK: stablehlo.select %[[MINE]], %{{.*}}, %[[Y]]
func.func @main(%x: tensor<32x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %y: tensor<32x3xf32>) -> tensor<32x3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<32> : tensor<i32>
  %a:2 = stablehlo.while(%i = %one, %c = %y) : tensor<i32>, tensor<32x3xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %r = stablehlo.dynamic_slice %x, %i, %zero, sizes = [1, 3] : (tensor<32x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
    %h = stablehlo.subtract %i, %one : tensor<i32>
    %q = stablehlo.dynamic_slice %c, %h, %zero, sizes = [1, 3] : (tensor<32x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
    %d = stablehlo.multiply %r, %q : tensor<1x3xf32>
    %row = stablehlo.reshape %d : (tensor<1x3xf32>) -> tensor<3xf32>
    %place = stablehlo.reshape %i : (tensor<i32>) -> tensor<1xi32>
    %e = "stablehlo.scatter"(%c, %place, %row) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]>, unique_indices = true}> ({
    ^bb0(%u: tensor<f32>, %v: tensor<f32>):
      %w = stablehlo.add %u, %v : tensor<f32>
      stablehlo.return %w : tensor<f32>
    }) : (tensor<32x3xf32>, tensor<1xi32>, tensor<3xf32>) -> tensor<32x3xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %e : tensor<i32>, tensor<32x3xf32>
  }
  return %a#1 : tensor<32x3xf32>
}
