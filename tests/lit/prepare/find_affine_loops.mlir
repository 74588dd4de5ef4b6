// RUN: dtensor-opt %s --split-input-file -p dtensor-import,dtensor-find-forms | filecheck %s

// h = a[i] * h + b[i], written to y[i]: two shards, each of which has four trips.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK: %[[A:.*]] = stablehlo.reshape %arg0 : (tensor<8x3xf32>) -> tensor<2x4x3xf32>
// CHECK: %[[START:.*]] = stablehlo.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<2x3xi1>, tensor<2x3xf32>
// CHECK: %[[ONE:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<2x3xf32>

// What the trips do to any carry: the product of the factors, and what comes of zero.

// CHECK: %[[MAPS:.*]]:3 = stablehlo.while(%[[I:.*]] = %{{.*}}, %[[LINEAR:.*]] = %[[ONE]], %[[OFFSET:.*]] = %[[START]])
// CHECK: dense<4> : tensor<i32>
// CHECK: %[[ROW:.*]] = stablehlo.dynamic_slice %[[A]], %{{.*}}, %[[I]], %{{.*}}, sizes = [2, 1, 3]
// CHECK: %[[FACTOR:.*]] = stablehlo.reshape %[[ROW]]
// CHECK: %[[PART:.*]] = stablehlo.multiply %[[FACTOR]], %[[OFFSET]]
// CHECK: stablehlo.add %[[PART]]
// CHECK: stablehlo.multiply %[[FACTOR]], %[[LINEAR]]

// CHECK: %[[ENDS:.*]]:2 = "dtensor.scan"(%[[MAPS]]#1, %[[MAPS]]#2)
// CHECK: {dim = 0 : i64, reverse = 0 : i64}
// CHECK: stablehlo.is_finite %[[ENDS]]#1
// CHECK: %[[BEFORE:.*]] = stablehlo.slice %[[ENDS]]#1 [0:1, 0:3]
// CHECK: %[[MOVED:.*]] = stablehlo.concatenate %{{.*}}, %[[BEFORE]], dim = 0
// CHECK: %[[AHEAD:.*]] = stablehlo.select %{{.*}}, %{{.*}}, %[[MOVED]]

// The trips as they are: once, or if anything is not finite, again from what the shard before gave.

// CHECK: %[[LOOP:.*]]:3 = stablehlo.while(%[[ROUND:.*]] = %{{.*}}, %[[GIVEN:.*]] = %[[AHEAD]], %{{.*}} = %{{.*}}) {{.*}} attributes {dtensor.trips = 1 : i64}
// CHECK: %[[SHIFTS:.*]] = stablehlo.minimum %[[ROUND]], %{{.*}} : tensor<i32>
// CHECK: %[[COME:.*]]:2 = stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %[[GIVEN]]) {{.*}} attributes {dtensor.trips = 0 : i64}
// CHECK: stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %[[COME]]#1, %{{.*}} = %{{.*}}) : tensor<i32>, tensor<2x3xf32>, tensor<2x4x3xf32>
// CHECK: stablehlo.dynamic_update_slice
// CHECK: stablehlo.slice %[[LOOP]]#1 [1:2, 0:3]
// CHECK: stablehlo.reshape %[[LOOP]]#2 : (tensor<2x4x3xf32>) -> tensor<8x3xf32>
func.func @main(%a: tensor<8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %b: tensor<8x3xf32>, %h: tensor<3xf32>) -> (tensor<3xf32>, tensor<8x3xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<8> : tensor<i32>
  %e = stablehlo.constant dense<0.0> : tensor<8x3xf32>
  %r:3 = stablehlo.while(%i = %zero, %c = %h, %y = %e) : tensor<i32>, tensor<3xf32>, tensor<8x3xf32>
    cond {
      %0 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %0 : tensor<i1>
    } do {
      %0 = stablehlo.dynamic_slice %a, %i, %zero, sizes = [1, 3] : (tensor<8x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
      %1 = stablehlo.reshape %0 : (tensor<1x3xf32>) -> tensor<3xf32>
      %2 = stablehlo.dynamic_slice %b, %i, %zero, sizes = [1, 3] : (tensor<8x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
      %3 = stablehlo.reshape %2 : (tensor<1x3xf32>) -> tensor<3xf32>
      %4 = stablehlo.multiply %1, %c : tensor<3xf32>
      %5 = stablehlo.add %4, %3 : tensor<3xf32>
      %6 = stablehlo.reshape %5 : (tensor<3xf32>) -> tensor<1x3xf32>
      %7 = stablehlo.dynamic_update_slice %y, %6, %i, %zero : (tensor<8x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<8x3xf32>
      %8 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %8, %5, %7 : tensor<i32>, tensor<3xf32>, tensor<8x3xf32>
    }
  return %r#1, %r#2 : tensor<3xf32>, tensor<8x3xf32>
}

// -----

// Nothing splits the dimension: the loop stays.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=3]>} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK: stablehlo.while({{.*}}) : tensor<i32>, tensor<3xf32>, tensor<8x3xf32>
// CHECK-NOT: dtensor.scan
func.func @main(%a: tensor<8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}, %b: tensor<8x3xf32>, %h: tensor<3xf32>) -> (tensor<3xf32>, tensor<8x3xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<8> : tensor<i32>
  %e = stablehlo.constant dense<0.0> : tensor<8x3xf32>
  %r:3 = stablehlo.while(%i = %zero, %c = %h, %y = %e) : tensor<i32>, tensor<3xf32>, tensor<8x3xf32>
    cond {
      %0 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %0 : tensor<i1>
    } do {
      %0 = stablehlo.dynamic_slice %a, %i, %zero, sizes = [1, 3] : (tensor<8x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
      %1 = stablehlo.reshape %0 : (tensor<1x3xf32>) -> tensor<3xf32>
      %2 = stablehlo.dynamic_slice %b, %i, %zero, sizes = [1, 3] : (tensor<8x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
      %3 = stablehlo.reshape %2 : (tensor<1x3xf32>) -> tensor<3xf32>
      %4 = stablehlo.multiply %1, %c : tensor<3xf32>
      %5 = stablehlo.add %4, %3 : tensor<3xf32>
      %6 = stablehlo.reshape %5 : (tensor<3xf32>) -> tensor<1x3xf32>
      %7 = stablehlo.dynamic_update_slice %y, %6, %i, %zero : (tensor<8x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<8x3xf32>
      %8 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %8, %5, %7 : tensor<i32>, tensor<3xf32>, tensor<8x3xf32>
    }
  return %r#1, %r#2 : tensor<3xf32>, tensor<8x3xf32>
}

// -----

// Two trips ahead are read: no array is walked from end to end.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK: stablehlo.while({{.*}}) : tensor<i32>, tensor<3xf32>, tensor<8x3xf32>
// CHECK-NOT: dtensor.scan
func.func @main(%a: tensor<8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %b: tensor<8x3xf32>, %h: tensor<3xf32>) -> (tensor<3xf32>, tensor<8x3xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<8> : tensor<i32>
  %e = stablehlo.constant dense<0.0> : tensor<8x3xf32>
  %r:3 = stablehlo.while(%i = %zero, %c = %h, %y = %e) : tensor<i32>, tensor<3xf32>, tensor<8x3xf32>
    cond {
      %0 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %0 : tensor<i1>
    } do {
      %k = stablehlo.add %i, %one : tensor<i32>
      %j = stablehlo.add %k, %one : tensor<i32>
      %0 = stablehlo.dynamic_slice %a, %j, %zero, sizes = [1, 3] : (tensor<8x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
      %1 = stablehlo.reshape %0 : (tensor<1x3xf32>) -> tensor<3xf32>
      %2 = stablehlo.dynamic_slice %b, %i, %zero, sizes = [1, 3] : (tensor<8x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
      %3 = stablehlo.reshape %2 : (tensor<1x3xf32>) -> tensor<3xf32>
      %4 = stablehlo.multiply %1, %c : tensor<3xf32>
      %5 = stablehlo.add %4, %3 : tensor<3xf32>
      %6 = stablehlo.reshape %5 : (tensor<3xf32>) -> tensor<1x3xf32>
      %7 = stablehlo.dynamic_update_slice %y, %6, %i, %zero : (tensor<8x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<8x3xf32>
      %8 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %8, %5, %7 : tensor<i32>, tensor<3xf32>, tensor<8x3xf32>
    }
  return %r#1, %r#2 : tensor<3xf32>, tensor<8x3xf32>
}

// -----

// The factor is what is carried: it is a square. So one shard runs after another.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK: stablehlo.while({{.*}}) : tensor<i32>, tensor<2x3xf32>{{$}}
// CHECK-NOT: dtensor.scan
func.func @main(%a: tensor<8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %b: tensor<8x3xf32>, %h: tensor<3xf32>) -> (tensor<3xf32>, tensor<8x3xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<8> : tensor<i32>
  %e = stablehlo.constant dense<0.0> : tensor<8x3xf32>
  %r:3 = stablehlo.while(%i = %zero, %c = %h, %y = %e) : tensor<i32>, tensor<3xf32>, tensor<8x3xf32>
    cond {
      %0 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %0 : tensor<i1>
    } do {
      %0 = stablehlo.dynamic_slice %a, %i, %zero, sizes = [1, 3] : (tensor<8x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
      %1 = stablehlo.reshape %0 : (tensor<1x3xf32>) -> tensor<3xf32>
      %2 = stablehlo.dynamic_slice %b, %i, %zero, sizes = [1, 3] : (tensor<8x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
      %3 = stablehlo.reshape %2 : (tensor<1x3xf32>) -> tensor<3xf32>
      %4 = stablehlo.multiply %c, %c : tensor<3xf32>
      %5 = stablehlo.add %4, %3 : tensor<3xf32>
      %6 = stablehlo.reshape %5 : (tensor<3xf32>) -> tensor<1x3xf32>
      %7 = stablehlo.dynamic_update_slice %y, %6, %i, %zero : (tensor<8x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<8x3xf32>
      %8 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %8, %5, %7 : tensor<i32>, tensor<3xf32>, tensor<8x3xf32>
    }
  return %r#1, %r#2 : tensor<3xf32>, tensor<8x3xf32>
}
