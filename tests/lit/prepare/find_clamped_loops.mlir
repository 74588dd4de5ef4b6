// RUN: dtensor-opt %s -p dtensor-import,dtensor-find-forms | filecheck %s

// h = max(b[i], h / 2), written to y[i]: two shards find factor, offset and bounds of eight trips.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = stablehlo.reshape %arg0 : (tensor<16x3xf32>) -> tensor<2x8x3xf32>
// CHECK-DAG: dense<1.000000e+00> : tensor<2x3xf32>
// CHECK-DAG: dense<0xFF800000> : tensor<2x3xf32>
// CHECK-DAG: dense<0x7F800000> : tensor<2x3xf32>
// CHECK: %[[MAPS:.*]]:5 = stablehlo.while(%[[I:.*]] = %{{.*}}, %[[FACTOR:.*]] = %{{.*}}, %[[OFFSET:.*]] = %{{.*}}, %[[LOW:.*]] = %{{.*}}, %[[HIGH:.*]] = %{{.*}})
// CHECK: %[[ROW:.*]] = stablehlo.dynamic_slice %[[B]], %{{.*}}, %[[I]], %{{.*}}, sizes = [2, 1, 3]
// CHECK: %[[LEAST:.*]] = stablehlo.reshape %[[ROW]]
// CHECK: stablehlo.divide %[[FACTOR]], %{{.*}}
// CHECK: stablehlo.maximum %{{.*}}, %[[LEAST]]
// CHECK: %[[ENDS:.*]]:4 = "dtensor.scan"(%[[MAPS]]#1, %[[MAPS]]#2, %[[MAPS]]#3, %[[MAPS]]#4)
// CHECK: %[[PRODUCT:.*]] = stablehlo.multiply %[[ENDS]]#0, %{{.*}}
// CHECK: %[[SUM:.*]] = stablehlo.add %[[PRODUCT]], %[[ENDS]]#1
// CHECK: %[[ABOVE:.*]] = stablehlo.maximum %[[SUM]], %[[ENDS]]#2
// CHECK: stablehlo.minimum %[[ABOVE]], %[[ENDS]]#3

// The trips as they are follow.

// CHECK: stablehlo.is_finite
// CHECK: stablehlo.dynamic_update_slice
func.func @main(%b: tensor<16x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %h: tensor<3xf32>) -> tensor<16x3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<16> : tensor<i32>
  %two = stablehlo.constant dense<2.0> : tensor<3xf32>
  %e = stablehlo.constant dense<0.0> : tensor<16x3xf32>
  %r:3 = stablehlo.while(%i = %zero, %c = %h, %y = %e) : tensor<i32>, tensor<3xf32>, tensor<16x3xf32>
    cond {
      %0 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %0 : tensor<i1>
    } do {
      %2 = stablehlo.dynamic_slice %b, %i, %zero, sizes = [1, 3] : (tensor<16x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
      %3 = stablehlo.reshape %2 : (tensor<1x3xf32>) -> tensor<3xf32>
      %4 = stablehlo.divide %c, %two : tensor<3xf32>
      %5 = stablehlo.maximum %4, %3 : tensor<3xf32>
      %6 = stablehlo.reshape %5 : (tensor<3xf32>) -> tensor<1x3xf32>
      %7 = stablehlo.dynamic_update_slice %y, %6, %i, %zero : (tensor<16x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<16x3xf32>
      %8 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %8, %5, %7 : tensor<i32>, tensor<3xf32>, tensor<16x3xf32>
    }
  return %r#2 : tensor<16x3xf32>
}
