// RUN: dtensor-opt %s -p dtensor-import,dtensor-find-forms | filecheck %s

// h = b[i] - h * reverse(h), or h if b[i, 0] is negative: no map is known of eight trips. So four
// shards run one after another, three times without writing anything.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = stablehlo.reshape %arg0 : (tensor<16x3xf32>) -> tensor<4x4x3xf32>
// CHECK: %[[H:.*]] = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<3xf32>) -> tensor<4x3xf32>
// CHECK: %[[AHEAD:.*]]:2 = stablehlo.while(%[[ROUND:.*]] = %{{.*}}, %[[CARRIED:.*]] = %[[H]])
// CHECK: %[[ROUNDS:.*]] = stablehlo.constant dense<3> : tensor<i32>
// CHECK: stablehlo.compare LT, %[[ROUND]], %[[ROUNDS]]
// CHECK: %[[ENDS:.*]]:2 = stablehlo.while(%[[I:.*]] = %{{.*}}, %[[OLD:.*]] = %[[CARRIED]])
// CHECK: stablehlo.dynamic_slice %[[B]], %{{.*}}, %[[I]], %{{.*}}, sizes = [4, 1, 3]
// CHECK: %[[IS:.*]] = stablehlo.compare LT
// CHECK-NOT: stablehlo.if
// CHECK: stablehlo.reverse %[[OLD]], dims = [1]
// CHECK: stablehlo.select
// CHECK-NOT: dynamic_update_slice

// The last state of each shard goes to the next one, and the first one starts from h.

// CHECK: %[[OTHERS:.*]] = stablehlo.slice %[[ENDS]]#1 [0:3, 0:3]
// CHECK: stablehlo.concatenate %{{.*}}, %[[OTHERS]], dim = 0
// CHECK: stablehlo.select
// CHECK: stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %[[AHEAD]]#1, %{{.*}} = %{{.*}})
// CHECK: stablehlo.dynamic_update_slice
func.func @main(%b: tensor<16x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %h: tensor<3xf32>) -> tensor<16x3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<16> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %e = stablehlo.constant dense<0.0> : tensor<16x3xf32>
  %r:3 = stablehlo.while(%i = %zero, %c = %h, %y = %e) : tensor<i32>, tensor<3xf32>, tensor<16x3xf32>
    cond {
      %0 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %0 : tensor<i1>
    } do {
      %2 = stablehlo.dynamic_slice %b, %i, %zero, sizes = [1, 3] : (tensor<16x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
      %3 = stablehlo.reshape %2 : (tensor<1x3xf32>) -> tensor<3xf32>
      %4 = stablehlo.slice %3 [0:1] : (tensor<3xf32>) -> tensor<1xf32>
      %5 = stablehlo.reshape %4 : (tensor<1xf32>) -> tensor<f32>
      %6 = stablehlo.compare LT, %5, %none : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %7 = "stablehlo.if"(%6) ({
        stablehlo.return %c : tensor<3xf32>
      }, {
        %10 = stablehlo.reverse %c, dims = [0] : tensor<3xf32>
        %11 = stablehlo.multiply %c, %10 : tensor<3xf32>
        %12 = stablehlo.subtract %3, %11 : tensor<3xf32>
        stablehlo.return %12 : tensor<3xf32>
      }) : (tensor<i1>) -> tensor<3xf32>
      %8 = stablehlo.reshape %7 : (tensor<3xf32>) -> tensor<1x3xf32>
      %9 = stablehlo.dynamic_update_slice %y, %8, %i, %zero : (tensor<16x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<16x3xf32>
      %13 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %13, %7, %9 : tensor<i32>, tensor<3xf32>, tensor<16x3xf32>
    }
  return %r#2 : tensor<16x3xf32>
}
