// RUN: dtensor-opt %s --split-input-file -p dtensor-import,dtensor-find-forms | filecheck %s

// Rows that were reversed, two a trip, and doubled on the way: they are read from the other end, so
// that nothing is reversed but the two rows of a trip.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()
// CHECK: func.func @main(%[[X:.*]]: tensor<32x3xf32> {{.*}}, %{{.*}})
// CHECK-NOT: reverse
// CHECK: %[[TWICE:.*]] = stablehlo.add %[[X]], %[[X]]
// CHECK-NOT: reverse
// CHECK: stablehlo.while(%[[IN:.*]] = %[[TWICE]], %[[I:.*]] = %{{.*}}, %{{.*}} = %{{.*}}, %[[OUT:.*]] = %{{.*}})
// CHECK: } do {
// CHECK: %[[LAST:.*]] = stablehlo.constant dense<30>
// CHECK: %[[PLACE:.*]] = stablehlo.subtract %[[LAST]], %[[I]]
// CHECK: %[[ROWS:.*]] = stablehlo.dynamic_slice %[[IN]], %[[PLACE]], %{{.*}}, sizes = [2, 3]
// CHECK: stablehlo.reverse %[[ROWS]], dims = [0] : tensor<2x3xf32>
// CHECK: %[[NEW:.*]] = stablehlo.reverse %{{.*}}, dims = [0] : tensor<2x3xf32>
// CHECK: stablehlo.dynamic_update_slice %[[OUT]], %[[NEW]], %{{.*}}
// CHECK-NOT: reverse
// CHECK: return
func.func @main(%x: tensor<32x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %c: tensor<512x512xf32>) -> tensor<32x3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<32> : tensor<i32>
  %nil = stablehlo.constant dense<0.0> : tensor<f32>
  %none = stablehlo.constant dense<0.0> : tensor<32x3xf32>
  %turned = stablehlo.reverse %x, dims = [0] : tensor<32x3xf32>
  %twice = stablehlo.add %turned, %turned : tensor<32x3xf32>
  %a:4 = stablehlo.while(%in = %twice, %i = %zero, %h = %c, %out = %none) : tensor<32x3xf32>, tensor<i32>, tensor<512x512xf32>, tensor<32x3xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %r = stablehlo.dynamic_slice %in, %i, %zero, sizes = [2, 3] : (tensor<32x3xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
    %m = stablehlo.reduce(%r init: %nil) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
    %b = stablehlo.broadcast_in_dim %m, dims = [] : (tensor<f32>) -> tensor<512x512xf32>
    %l = stablehlo.add %h, %b : tensor<512x512xf32>
    %g = stablehlo.dot_general %l, %l, contracting_dims = [1] x [0] : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %s = stablehlo.slice %g [0:2, 0:3] : (tensor<512x512xf32>) -> tensor<2x3xf32>
    %d = stablehlo.multiply %r, %s : tensor<2x3xf32>
    %e = stablehlo.dynamic_update_slice %out, %d, %i, %zero : (tensor<32x3xf32>, tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<32x3xf32>
    %j = stablehlo.add %i, %two : tensor<i32>
    stablehlo.return %in, %j, %g, %e : tensor<32x3xf32>, tensor<i32>, tensor<512x512xf32>, tensor<32x3xf32>
  }
  %back = stablehlo.reverse %a#3, dims = [0] : tensor<32x3xf32>
  return %back : tensor<32x3xf32>
}

// -----

// Its rows are read as they are, and what it wrote is reversed: one reversal more, one less. So the
// loop stays.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()
// CHECK: func.func @main(%[[X:.*]]: tensor<32x3xf32> {{.*}}, %{{.*}})
// CHECK-NOT: reverse
// CHECK: %[[ROWS:.*]]:4 = stablehlo.while({{.*}} = %[[X]], %[[I:.*]] = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}})
// CHECK: } do {
// CHECK-NEXT: stablehlo.dynamic_slice %{{.*}}, %[[I]], %{{.*}}, sizes = [2, 3]
// CHECK: stablehlo.dynamic_update_slice %{{.*}}, %{{.*}}, %[[I]], %{{.*}}
// CHECK: %[[BACK:.*]] = stablehlo.reverse %[[ROWS]]#3, dims = [0]
// CHECK: return %[[BACK]]
func.func @main(%x: tensor<32x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %c: tensor<512x512xf32>) -> tensor<32x3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<32> : tensor<i32>
  %nil = stablehlo.constant dense<0.0> : tensor<f32>
  %none = stablehlo.constant dense<0.0> : tensor<32x3xf32>
  %a:4 = stablehlo.while(%in = %x, %i = %zero, %h = %c, %out = %none) : tensor<32x3xf32>, tensor<i32>, tensor<512x512xf32>, tensor<32x3xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %r = stablehlo.dynamic_slice %in, %i, %zero, sizes = [2, 3] : (tensor<32x3xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
    %m = stablehlo.reduce(%r init: %nil) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
    %b = stablehlo.broadcast_in_dim %m, dims = [] : (tensor<f32>) -> tensor<512x512xf32>
    %l = stablehlo.add %h, %b : tensor<512x512xf32>
    %g = stablehlo.dot_general %l, %l, contracting_dims = [1] x [0] : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %s = stablehlo.slice %g [0:2, 0:3] : (tensor<512x512xf32>) -> tensor<2x3xf32>
    %d = stablehlo.multiply %r, %s : tensor<2x3xf32>
    %e = stablehlo.dynamic_update_slice %out, %d, %i, %zero : (tensor<32x3xf32>, tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<32x3xf32>
    %j = stablehlo.add %i, %two : tensor<i32>
    stablehlo.return %in, %j, %g, %e : tensor<32x3xf32>, tensor<i32>, tensor<512x512xf32>, tensor<32x3xf32>
  }
  %back = stablehlo.reverse %a#3, dims = [0] : tensor<32x3xf32>
  return %back : tensor<32x3xf32>
}

// -----

// So it does where something else reads the reversed rows, and where nobody splits them.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()
// CHECK: func.func @main(%[[X:.*]]: tensor<32x3xf32> {{.*}}, %[[Y:.*]]: tensor<32x3xf32>, %{{.*}})
// CHECK: %[[TURNED:.*]] = stablehlo.reverse %[[X]], dims = [0]
// CHECK: stablehlo.while({{.*}} = %[[TURNED]],
// CHECK: %[[OTHER:.*]] = stablehlo.reverse %[[Y]], dims = [0]
// CHECK: %[[ROWS:.*]]:4 = stablehlo.while({{.*}} = %[[OTHER]],
// CHECK: %[[BACK:.*]] = stablehlo.reverse %[[ROWS]]#3, dims = [0]
// CHECK: return %{{.*}}, %[[TURNED]], %[[BACK]]
func.func @main(%x: tensor<32x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %y: tensor<32x3xf32>, %c: tensor<512x512xf32>) -> (tensor<32x3xf32>, tensor<32x3xf32>, tensor<32x3xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<32> : tensor<i32>
  %nil = stablehlo.constant dense<0.0> : tensor<f32>
  %none = stablehlo.constant dense<0.0> : tensor<32x3xf32>
  %turned = stablehlo.reverse %x, dims = [0] : tensor<32x3xf32>
  %a:4 = stablehlo.while(%in = %turned, %i = %zero, %h = %c, %out = %none) : tensor<32x3xf32>, tensor<i32>, tensor<512x512xf32>, tensor<32x3xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %r = stablehlo.dynamic_slice %in, %i, %zero, sizes = [2, 3] : (tensor<32x3xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
    %m = stablehlo.reduce(%r init: %nil) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
    %b = stablehlo.broadcast_in_dim %m, dims = [] : (tensor<f32>) -> tensor<512x512xf32>
    %l = stablehlo.add %h, %b : tensor<512x512xf32>
    %g = stablehlo.dot_general %l, %l, contracting_dims = [1] x [0] : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %s = stablehlo.slice %g [0:2, 0:3] : (tensor<512x512xf32>) -> tensor<2x3xf32>
    %d = stablehlo.multiply %r, %s : tensor<2x3xf32>
    %e = stablehlo.dynamic_update_slice %out, %d, %i, %zero : (tensor<32x3xf32>, tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<32x3xf32>
    %j = stablehlo.add %i, %two : tensor<i32>
    stablehlo.return %in, %j, %g, %e : tensor<32x3xf32>, tensor<i32>, tensor<512x512xf32>, tensor<32x3xf32>
  }
  %other = stablehlo.reverse %y, dims = [0] : tensor<32x3xf32>
  %b:4 = stablehlo.while(%in = %other, %i = %zero, %h = %c, %out = %none) : tensor<32x3xf32>, tensor<i32>, tensor<512x512xf32>, tensor<32x3xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %r = stablehlo.dynamic_slice %in, %i, %zero, sizes = [2, 3] : (tensor<32x3xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
    %m = stablehlo.reduce(%r init: %nil) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
    %b = stablehlo.broadcast_in_dim %m, dims = [] : (tensor<f32>) -> tensor<512x512xf32>
    %l = stablehlo.add %h, %b : tensor<512x512xf32>
    %g = stablehlo.dot_general %l, %l, contracting_dims = [1] x [0] : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %s = stablehlo.slice %g [0:2, 0:3] : (tensor<512x512xf32>) -> tensor<2x3xf32>
    %d = stablehlo.multiply %r, %s : tensor<2x3xf32>
    %e = stablehlo.dynamic_update_slice %out, %d, %i, %zero : (tensor<32x3xf32>, tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<32x3xf32>
    %j = stablehlo.add %i, %two : tensor<i32>
    stablehlo.return %in, %j, %g, %e : tensor<32x3xf32>, tensor<i32>, tensor<512x512xf32>, tensor<32x3xf32>
  }
  %back = stablehlo.reverse %b#3, dims = [0] : tensor<32x3xf32>
  return %a#3, %turned, %back : tensor<32x3xf32>, tensor<32x3xf32>, tensor<32x3xf32>
}

// -----

// Of what it wrote, some is read as it was, and some reversed: one reversal of two is left.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()
// CHECK: func.func @main(%[[X:.*]]: tensor<32x3xf32> {{.*}}, %{{.*}})
// CHECK: %[[ROWS:.*]]:4 = stablehlo.while({{.*}} = %[[X]],
// CHECK: %[[BACK:.*]] = stablehlo.reverse %[[ROWS]]#3, dims = [0] : tensor<32x3xf32>
// CHECK: %[[TWICE:.*]] = stablehlo.add %[[ROWS]]#3, %[[ROWS]]#3 : tensor<32x3xf32>
// CHECK-NEXT: return %[[BACK]], %[[TWICE]], %[[ROWS]]#1
func.func @main(%x: tensor<32x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %c: tensor<512x512xf32>) -> (tensor<32x3xf32>, tensor<32x3xf32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<32> : tensor<i32>
  %nil = stablehlo.constant dense<0.0> : tensor<f32>
  %none = stablehlo.constant dense<0.0> : tensor<32x3xf32>
  %turned = stablehlo.reverse %x, dims = [0] : tensor<32x3xf32>
  %a:4 = stablehlo.while(%in = %turned, %i = %zero, %h = %c, %out = %none) : tensor<32x3xf32>, tensor<i32>, tensor<512x512xf32>, tensor<32x3xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %r = stablehlo.dynamic_slice %in, %i, %zero, sizes = [2, 3] : (tensor<32x3xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
    %m = stablehlo.reduce(%r init: %nil) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
    %b = stablehlo.broadcast_in_dim %m, dims = [] : (tensor<f32>) -> tensor<512x512xf32>
    %l = stablehlo.add %h, %b : tensor<512x512xf32>
    %g = stablehlo.dot_general %l, %l, contracting_dims = [1] x [0] : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %s = stablehlo.slice %g [0:2, 0:3] : (tensor<512x512xf32>) -> tensor<2x3xf32>
    %d = stablehlo.multiply %r, %s : tensor<2x3xf32>
    %e = stablehlo.dynamic_update_slice %out, %d, %i, %zero : (tensor<32x3xf32>, tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<32x3xf32>
    %j = stablehlo.add %i, %two : tensor<i32>
    stablehlo.return %in, %j, %g, %e : tensor<32x3xf32>, tensor<i32>, tensor<512x512xf32>, tensor<32x3xf32>
  }
  %twice = stablehlo.add %a#3, %a#3 : tensor<32x3xf32>
  %back = stablehlo.reverse %twice, dims = [0] : tensor<32x3xf32>
  return %a#3, %back, %a#1 : tensor<32x3xf32>, tensor<32x3xf32>, tensor<i32>
}

// -----

// A place of eight bits, from which one counts from the other end in more.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()
// CHECK: func.func @main(%[[X:.*]]: tensor<32x3xf32> {{.*}}, %{{.*}})
// CHECK: stablehlo.while({{.*}} = %[[X]],
// CHECK: %[[NARROW:.*]] = stablehlo.convert %{{.*}} : (tensor<i32>) -> tensor<i8>
// CHECK: %[[WIDE:.*]] = stablehlo.convert %[[NARROW]] : (tensor<i8>) -> tensor<i32>
// CHECK: %[[PLACE:.*]] = stablehlo.subtract %{{.*}}, %[[WIDE]] : tensor<i32>
// CHECK-NEXT: stablehlo.dynamic_slice %{{.*}}, %[[PLACE]], %{{.*}}, sizes = [2, 3]
func.func @main(%x: tensor<32x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %c: tensor<512x512xf32>) -> tensor<32x3xf32> {
  %nought = stablehlo.constant dense<0> : tensor<i8>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<32> : tensor<i32>
  %nil = stablehlo.constant dense<0.0> : tensor<f32>
  %none = stablehlo.constant dense<0.0> : tensor<32x3xf32>
  %turned = stablehlo.reverse %x, dims = [0] : tensor<32x3xf32>
  %a:4 = stablehlo.while(%in = %turned, %i = %zero, %h = %c, %out = %none) : tensor<32x3xf32>, tensor<i32>, tensor<512x512xf32>, tensor<32x3xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %k = stablehlo.convert %i : (tensor<i32>) -> tensor<i8>
    %r = stablehlo.dynamic_slice %in, %k, %nought, sizes = [2, 3] : (tensor<32x3xf32>, tensor<i8>, tensor<i8>) -> tensor<2x3xf32>
    %m = stablehlo.reduce(%r init: %nil) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
    %b = stablehlo.broadcast_in_dim %m, dims = [] : (tensor<f32>) -> tensor<512x512xf32>
    %l = stablehlo.add %h, %b : tensor<512x512xf32>
    %g = stablehlo.dot_general %l, %l, contracting_dims = [1] x [0] : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %s = stablehlo.slice %g [0:2, 0:3] : (tensor<512x512xf32>) -> tensor<2x3xf32>
    %d = stablehlo.multiply %r, %s : tensor<2x3xf32>
    %e = stablehlo.dynamic_update_slice %out, %d, %i, %zero : (tensor<32x3xf32>, tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<32x3xf32>
    %j = stablehlo.add %i, %two : tensor<i32>
    stablehlo.return %in, %j, %g, %e : tensor<32x3xf32>, tensor<i32>, tensor<512x512xf32>, tensor<32x3xf32>
  }
  %back = stablehlo.reverse %a#3, dims = [0] : tensor<32x3xf32>
  return %back : tensor<32x3xf32>
}
