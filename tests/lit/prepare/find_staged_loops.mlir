// RUN: dtensor-opt %s -p dtensor-import,dtensor-find-forms | filecheck %s

// m = max(m, b[i]) is known first. Then t = t * (m before / m) + b[i] is affine. No row is written:
// what the blocks end with is all that is read, and nothing is run again where it is finite.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = stablehlo.reshape %arg0 : (tensor<64xf32>) -> tensor<2x32xf32>
// CHECK: %[[MAPS:.*]]:5 = stablehlo.while
// CHECK: "dtensor.scan"(%[[MAPS]]#1, %[[MAPS]]#2, %[[MAPS]]#3, %[[MAPS]]#4)
// CHECK: %[[MOST:.*]] = stablehlo.select {{.*}} : tensor<2xi1>, tensor<2xf32>
// CHECK: %[[SUMS:.*]]:4 = stablehlo.while({{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}, %[[M:.*]] = %{{.*}}) : tensor<i32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
// CHECK: %[[NOW:.*]] = stablehlo.maximum %[[M]]
// CHECK: stablehlo.divide %[[M]], %[[NOW]]
// CHECK: %[[TOTAL:.*]]:2 = "dtensor.scan"(%[[SUMS]]#1, %[[SUMS]]#2)
// CHECK-DAG: stablehlo.is_finite %[[TOTAL]]#1
// CHECK-DAG: dense<2> : tensor<i32>
// CHECK: %[[ENDS:.*]]:3 = stablehlo.while{{.*}} attributes {dtensor.trips = 1 : i64}
// CHECK: stablehlo.slice %[[ENDS]]#2 [1:2]
// CHECK-NOT: stablehlo.while
func.func @main(%b: tensor<64xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) -> tensor<f32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<64> : tensor<i32>
  %h = stablehlo.constant dense<1.0> : tensor<f32>
  %r:3 = stablehlo.while(%i = %zero, %m = %h, %t = %h) : tensor<i32>, tensor<f32>, tensor<f32>
    cond {
      %0 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %0 : tensor<i1>
    } do {
      %2 = stablehlo.dynamic_slice %b, %i, sizes = [1] : (tensor<64xf32>, tensor<i32>) -> tensor<1xf32>
      %3 = stablehlo.reshape %2 : (tensor<1xf32>) -> tensor<f32>
      %4 = stablehlo.maximum %m, %3 : tensor<f32>
      %5 = stablehlo.divide %m, %4 : tensor<f32>
      %6 = stablehlo.multiply %t, %5 : tensor<f32>
      %7 = stablehlo.add %6, %3 : tensor<f32>
      %8 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %8, %4, %7 : tensor<i32>, tensor<f32>, tensor<f32>
    }
  return %r#2 : tensor<f32>
}
