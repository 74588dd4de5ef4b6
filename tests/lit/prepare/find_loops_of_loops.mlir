// RUN: dtensor-opt %s -p dtensor-import,dtensor-find-forms | filecheck %s

// Two loops over a split array, the second of which returns what the first one gave: it is read anew
// when its turn comes, for the first one is gone.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()
// CHECK-LABEL: func.func @main
// CHECK: "dtensor.scan"
// CHECK: %[[FIRST:.*]] = stablehlo.reshape %{{.*}} : (tensor<1x3xf32>) -> tensor<3xf32>
// CHECK: stablehlo.broadcast_in_dim %[[FIRST]], dims = [1] : (tensor<3xf32>) -> tensor<4x3xf32>
// CHECK: %[[SECOND:.*]] = stablehlo.reshape %{{.*}} : (tensor<1x3xf32>) -> tensor<3xf32>
// CHECK: return %[[FIRST]], %[[SECOND]]
func.func @main(%x: tensor<32x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %s: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<32> : tensor<i32>
  %a:2 = stablehlo.while(%i = %zero, %c = %s) : tensor<i32>, tensor<3xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %r = stablehlo.dynamic_slice %x, %i, %zero, sizes = [1, 3] : (tensor<32x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
    %q = stablehlo.reshape %r : (tensor<1x3xf32>) -> tensor<3xf32>
    %d = stablehlo.add %c, %q : tensor<3xf32>
    %e = stablehlo.multiply %d, %q : tensor<3xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %e : tensor<i32>, tensor<3xf32>
  }
  %b:2 = stablehlo.while(%i = %zero, %c = %s) : tensor<i32>, tensor<3xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %r = stablehlo.dynamic_slice %x, %i, %zero, sizes = [1, 3] : (tensor<32x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
    %q = stablehlo.reshape %r : (tensor<1x3xf32>) -> tensor<3xf32>
    %d = stablehlo.multiply %c, %q : tensor<3xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %a#1 : tensor<i32>, tensor<3xf32>
  }
  return %a#1, %b#1 : tensor<3xf32>, tensor<3xf32>
}
