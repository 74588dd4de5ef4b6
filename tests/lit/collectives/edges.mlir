// RUN: dtensor-opt %s -p dtensor-optimize-collectives | filecheck %s

// What several messages send to the same devices is sent in one.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// The last column of a tile, and of the tile with the row that came from above: that row's corner
// goes along, and is fetched first.

// CHECK-LABEL: func.func @corners
func.func @corners(%a: tensor<5x3xf32>) -> (tensor<5x1xf32>, tensor<5x1xf32>) {
  // CHECK: %[[ROW:.*]] = "dtensor.shard_permute"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["x"]>
  // CHECK-DAG: %[[EDGE:.*]] = stablehlo.slice %arg0 [0:5, 2:3]
  // CHECK-DAG: %[[CORNER:.*]] = stablehlo.slice %[[ROW]] [0:1, 2:3]
  // CHECK: %[[MESSAGE:.*]] = stablehlo.concatenate %[[CORNER]], %[[EDGE]], dim = 0
  // CHECK: %[[GOT:.*]] = "dtensor.shard_permute"(%[[MESSAGE]]) {axes = #dtensor.axes<@mesh, ["y"]>
  // CHECK-SAME: tensor<6x1xf32>
  // CHECK: %[[FIRST:.*]] = stablehlo.slice %[[GOT]] [1:6, 0:1]
  // CHECK: %[[REST:.*]] = stablehlo.slice %[[FIRST]] [0:4, 0:1]
  // CHECK: %[[SECOND:.*]] = stablehlo.concatenate %{{.*}}, %[[REST]], dim = 0
  // CHECK-NOT: dtensor.shard_permute
  // CHECK: return %[[FIRST]], %[[SECOND]]
  %edge = stablehlo.slice %a [0:5, 2:3] : (tensor<5x3xf32>) -> tensor<5x1xf32>
  %0 = "dtensor.shard_permute"(%edge) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<5x1xf32>) -> tensor<5x1xf32>
  %last = stablehlo.slice %a [4:5, 0:3] : (tensor<5x3xf32>) -> tensor<1x3xf32>
  %row = "dtensor.shard_permute"(%last) {axes = #dtensor.axes<@mesh, ["x"]>, sources = array<i64: 1, 0>} : (tensor<1x3xf32>) -> tensor<1x3xf32>
  %others = stablehlo.slice %a [0:4, 0:3] : (tensor<5x3xf32>) -> tensor<4x3xf32>
  %moved = stablehlo.concatenate %row, %others, dim = 0 : (tensor<1x3xf32>, tensor<4x3xf32>) -> tensor<5x3xf32>
  %cut = stablehlo.slice %moved [0:5, 2:3] : (tensor<5x3xf32>) -> tensor<5x1xf32>
  %1 = "dtensor.shard_permute"(%cut) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<5x1xf32>) -> tensor<5x1xf32>
  return %0, %1 : tensor<5x1xf32>, tensor<5x1xf32>
}

// What is chosen alike on both sides is chosen of what came; an index along the axes is not alike.

// CHECK-LABEL: func.func @chosen
func.func @chosen(%a: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  // CHECK: %[[ALIKE:.*]] = stablehlo.compare EQ
  // CHECK: %[[MIXED:.*]] = stablehlo.select %{{.*}}, %[[ZERO:.*]], %arg0
  // CHECK: %[[BOTH:.*]] = stablehlo.concatenate %arg0, %[[MIXED]], dim = 0
  // CHECK: "dtensor.shard_permute"(%[[BOTH]])
  // CHECK: %[[GOT:.*]] = stablehlo.slice %{{.*}} [0:2]
  // CHECK-NOT: dtensor.shard_permute
  // CHECK: %[[CHOSEN:.*]] = stablehlo.select %[[ALIKE]], %[[ZERO]], %[[GOT]]
  // CHECK: return %[[GOT]], %[[CHOSEN]], %{{.*}}
  %none = stablehlo.constant dense<0> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<2xf32>
  %x = "dtensor.axis_index"() {axes = #dtensor.axes<@mesh, ["x"]>} : () -> tensor<i32>
  %y = "dtensor.axis_index"() {axes = #dtensor.axes<@mesh, ["y"]>} : () -> tensor<i32>
  %alike = stablehlo.compare EQ, %x, %none : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %unlike = stablehlo.compare EQ, %y, %none : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %0 = "dtensor.shard_permute"(%a) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<2xf32>) -> tensor<2xf32>
  %chosen = stablehlo.select %alike, %zero, %a : tensor<i1>, tensor<2xf32>
  %1 = "dtensor.shard_permute"(%chosen) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<2xf32>) -> tensor<2xf32>
  %mixed = stablehlo.select %unlike, %zero, %a : tensor<i1>, tensor<2xf32>
  %2 = "dtensor.shard_permute"(%mixed) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<2xf32>) -> tensor<2xf32>
  return %0, %1, %2 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// Where nobody sends there are zeros, which are not what all devices have.

// CHECK-LABEL: func.func @ones_that_one_device_does_not_get
func.func @ones_that_one_device_does_not_get() -> tensor<2xf32> {
  // CHECK: %[[GOT:.*]] = "dtensor.shard_permute"
  // CHECK: return %[[GOT]]
  %ones = stablehlo.constant dense<1.0> : tensor<2xf32>
  %0 = "dtensor.shard_permute"(%ones) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: -1, 0, 1, 2>} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// A message that is made of what the first one brought is one of its own.

// CHECK-LABEL: func.func @twice
func.func @twice(%a: tensor<3xf32>) -> (tensor<3xf32>, tensor<4xf32>) {
  // CHECK-COUNT-2: dtensor.shard_permute
  %0 = "dtensor.shard_permute"(%a) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<3xf32>) -> tensor<3xf32>
  %edge = stablehlo.slice %0 [0:1] : (tensor<3xf32>) -> tensor<1xf32>
  %both = stablehlo.concatenate %edge, %a, dim = 0 : (tensor<1xf32>, tensor<3xf32>) -> tensor<4xf32>
  %1 = "dtensor.shard_permute"(%both) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<3xf32>, tensor<4xf32>
}

// Edges of two fields go together, and that of their product is computed of them.

// CHECK-LABEL: func.func @fields
func.func @fields(%h: tensor<3x5xf32>, %u: tensor<3x5xf32>) -> (tensor<1x5xf32>, tensor<1x5xf32>, tensor<1x5xf32>) {
  // CHECK-DAG: %[[H:.*]] = stablehlo.slice %arg0 [2:3, 0:5]
  // CHECK-DAG: %[[U:.*]] = stablehlo.slice %arg1 [2:3, 0:5]
  // CHECK: %[[BOTH:.*]] = stablehlo.concatenate %[[H]], %[[U]], dim = 0
  // CHECK: %[[GOT:.*]] = "dtensor.shard_permute"(%[[BOTH]])
  // CHECK-DAG: %[[OF_H:.*]] = stablehlo.slice %[[GOT]] [0:1, 0:5]
  // CHECK-DAG: %[[OF_U:.*]] = stablehlo.slice %[[GOT]] [1:2, 0:5]
  // CHECK: %[[PRODUCT:.*]] = stablehlo.multiply %[[OF_H]], %[[OF_U]] : tensor<1x5xf32>
  // CHECK-NOT: dtensor.shard_permute
  // CHECK: return %[[PRODUCT]], %[[OF_H]], %[[OF_U]]
  %product = stablehlo.multiply %h, %u : tensor<3x5xf32>
  %0 = stablehlo.slice %product [2:3, 0:5] : (tensor<3x5xf32>) -> tensor<1x5xf32>
  %1 = "dtensor.shard_permute"(%0) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<1x5xf32>) -> tensor<1x5xf32>
  %2 = stablehlo.slice %h [2:3, 0:5] : (tensor<3x5xf32>) -> tensor<1x5xf32>
  %3 = "dtensor.shard_permute"(%2) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<1x5xf32>) -> tensor<1x5xf32>
  %4 = stablehlo.slice %u [2:3, 0:5] : (tensor<3x5xf32>) -> tensor<1x5xf32>
  %5 = "dtensor.shard_permute"(%4) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<1x5xf32>) -> tensor<1x5xf32>
  return %1, %3, %5 : tensor<1x5xf32>, tensor<1x5xf32>, tensor<1x5xf32>
}

// A product of which another factor is not sent is sent itself.

// CHECK-LABEL: func.func @factor_that_stays
func.func @factor_that_stays(%h: tensor<5xf32>, %u: tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>) {
  // CHECK: %[[PRODUCT:.*]] = stablehlo.multiply %arg0, %arg1
  // CHECK: %[[BOTH:.*]] = stablehlo.concatenate %[[PRODUCT]], %arg0, dim = 0
  // CHECK: "dtensor.shard_permute"(%[[BOTH]])
  // CHECK-NOT: stablehlo.multiply
  %product = stablehlo.multiply %h, %u : tensor<5xf32>
  %0 = "dtensor.shard_permute"(%product) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<5xf32>) -> tensor<5xf32>
  %1 = "dtensor.shard_permute"(%h) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<5xf32>) -> tensor<5xf32>
  return %0, %1 : tensor<5xf32>, tensor<5xf32>
}

// Where nobody sends, zeros arrive: a square makes zeros of them, and so does half of it; the
// opposite makes negative zeros, and a cosine ones, so these two are sent.

// CHECK-LABEL: func.func @zeros_at_the_end
func.func @zeros_at_the_end(%h: tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>) {
  // CHECK-DAG: %[[OPPOSITE:.*]] = stablehlo.multiply %arg0, %cst_{{.*}} :
  // CHECK-DAG: %[[COSINE:.*]] = stablehlo.cosine %arg0
  // CHECK: stablehlo.concatenate %[[OPPOSITE]], %[[COSINE]], %arg0, dim = 0
  // CHECK: "dtensor.shard_permute"({{.*}}tensor<15xf32>
  // CHECK: %[[SQUARE:.*]] = stablehlo.multiply %[[GOT:.*]], %[[GOT]]
  // CHECK: %[[HALF:.*]] = stablehlo.multiply %[[SQUARE]], %{{.*}}
  // CHECK-NOT: dtensor.shard_permute
  // CHECK: return %[[HALF]]
  %by_half = stablehlo.constant dense<0.5> : tensor<5xf32>
  %by_less = stablehlo.constant dense<-0.5> : tensor<5xf32>
  %square = stablehlo.multiply %h, %h : tensor<5xf32>
  %half = stablehlo.multiply %square, %by_half : tensor<5xf32>
  %opposite = stablehlo.multiply %h, %by_less : tensor<5xf32>
  %cosine = stablehlo.cosine %h : tensor<5xf32>
  %0 = "dtensor.shard_permute"(%half) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: -1, 0, 1, 2>} : (tensor<5xf32>) -> tensor<5xf32>
  %1 = "dtensor.shard_permute"(%opposite) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: -1, 0, 1, 2>} : (tensor<5xf32>) -> tensor<5xf32>
  %2 = "dtensor.shard_permute"(%cosine) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: -1, 0, 1, 2>} : (tensor<5xf32>) -> tensor<5xf32>
  %3 = "dtensor.shard_permute"(%h) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: -1, 0, 1, 2>} : (tensor<5xf32>) -> tensor<5xf32>
  return %0, %1, %2, %3 : tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>
}

// Large values go by themselves: to put them side by side takes longer than a second message.

// CHECK-LABEL: func.func @large
func.func @large(%a: tensor<24000xf32>, %b: tensor<24000xf32>) -> (tensor<24000xf32>, tensor<24000xf32>) {
  // CHECK: "dtensor.shard_permute"(%arg0)
  // CHECK: "dtensor.shard_permute"(%arg1)
  %0 = "dtensor.shard_permute"(%a) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<24000xf32>) -> tensor<24000xf32>
  %1 = "dtensor.shard_permute"(%b) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<24000xf32>) -> tensor<24000xf32>
  return %0, %1 : tensor<24000xf32>, tensor<24000xf32>
}

// What is read only for what nothing reads goes with no message.

// CHECK-LABEL: func.func @unread
func.func @unread(%a: tensor<5xf32>, %b: tensor<5x5xf32>) -> tensor<5xf32> {
  // CHECK-NEXT: %[[GOT:.*]] = "dtensor.shard_permute"(%arg0)
  // CHECK-NEXT: return %[[GOT]]
  %0 = "dtensor.shard_permute"(%a) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<5xf32>) -> tensor<5xf32>
  %1 = "dtensor.shard_permute"(%b) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<5x5xf32>) -> tensor<5x5xf32>
  %2 = stablehlo.dot_general %1, %0, contracting_dims = [1] x [0] : (tensor<5x5xf32>, tensor<5xf32>) -> tensor<5xf32>
  %3 = stablehlo.negate %2 : tensor<5xf32>
  return %0 : tensor<5xf32>
}

// So it is where a sum, an operation with a region, is what nothing reads.

// CHECK-LABEL: func.func @unread_sum
func.func @unread_sum(%a: tensor<5xf32>, %b: tensor<5x5xf32>) -> tensor<5xf32> {
  // CHECK-NEXT: %[[GOT:.*]] = "dtensor.shard_permute"(%arg0)
  // CHECK-NEXT: return %[[GOT]]
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "dtensor.shard_permute"(%a) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<5xf32>) -> tensor<5xf32>
  %1 = "dtensor.shard_permute"(%b) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<5x5xf32>) -> tensor<5x5xf32>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<5x5xf32>, tensor<f32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}

// What a custom call does is not known.

// CHECK-LABEL: func.func @called
func.func @called(%a: tensor<5xf32>, %b: tensor<5xf32>) -> tensor<5xf32> {
  // CHECK: stablehlo.concatenate %arg0, %arg1, dim = 0
  // CHECK: stablehlo.custom_call @noted
  %0 = "dtensor.shard_permute"(%a) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<5xf32>) -> tensor<5xf32>
  %1 = "dtensor.shard_permute"(%b) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<5xf32>) -> tensor<5xf32>
  %2 = stablehlo.custom_call @noted(%1) : (tensor<5xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}

// What different shards need stands in one place: the last shard sends the first what stands further
// inside of it, and the others send their ends. So it is with two of each, of which one has the other.

// CHECK-LABEL: func.func @round
func.func @round(%a: tensor<6x3xf32>) -> (tensor<1x3xf32>, tensor<1x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  // CHECK-DAG: %[[ENDS:.*]] = stablehlo.slice %arg0 [4:6, 0:3]
  // CHECK-DAG: %[[LAST:.*]] = stablehlo.slice %arg0 [2:4, 0:3]
  // CHECK-DAG: %[[THREE:.*]] = stablehlo.constant dense<3> : tensor<i32>
  // CHECK-DAG: %[[INDEX:.*]] = "dtensor.axis_index"() {axes = #dtensor.axes<@mesh, ["y"]>}
  // CHECK-DAG: %[[IS_LAST:.*]] = stablehlo.compare EQ, %[[INDEX]], %[[THREE]]
  // CHECK: %[[SENT:.*]] = stablehlo.select %[[IS_LAST]], %[[LAST]], %[[ENDS]]
  // CHECK: %[[GOT:.*]] = "dtensor.shard_permute"(%[[SENT]])
  // CHECK-SAME: tensor<2x3xf32>
  // CHECK-NOT: dtensor.shard_permute
  // CHECK: %[[ROW:.*]] = stablehlo.slice %[[GOT]] [1:2, 0:3]
  // CHECK: return %{{.*}}, %{{.*}}, %[[GOT]], %[[GOT]]
  %0 = stablehlo.slice %a [5:6, 0:3] : (tensor<6x3xf32>) -> tensor<1x3xf32>
  %1 = "dtensor.shard_permute"(%0) {axes = #dtensor.axes<@mesh, ["y"]>, readers = array<i64: 1, 2, 3>, sources = array<i64: 3, 0, 1, 2>} : (tensor<1x3xf32>) -> tensor<1x3xf32>
  %2 = stablehlo.slice %a [3:4, 0:3] : (tensor<6x3xf32>) -> tensor<1x3xf32>
  %3 = "dtensor.shard_permute"(%2) {axes = #dtensor.axes<@mesh, ["y"]>, readers = array<i64: 0>, sources = array<i64: 3, 0, 1, 2>} : (tensor<1x3xf32>) -> tensor<1x3xf32>
  %4 = stablehlo.slice %a [4:6, 0:3] : (tensor<6x3xf32>) -> tensor<2x3xf32>
  %5 = "dtensor.shard_permute"(%4) {axes = #dtensor.axes<@mesh, ["y"]>, readers = array<i64: 1, 2, 3>, sources = array<i64: 3, 0, 1, 2>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %6 = stablehlo.slice %a [2:4, 0:3] : (tensor<6x3xf32>) -> tensor<2x3xf32>
  %7 = "dtensor.shard_permute"(%6) {axes = #dtensor.axes<@mesh, ["y"]>, readers = array<i64: 0>, sources = array<i64: 3, 0, 1, 2>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1, %3, %5, %7 : tensor<1x3xf32>, tensor<1x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}

// Not where a shard needs both, nor where all need one: then they stand side by side.

// CHECK-LABEL: func.func @both_needed
func.func @both_needed(%a: tensor<6x3xf32>) -> (tensor<1x3xf32>, tensor<1x3xf32>, tensor<1x3xf32>) {
  // CHECK-NOT: dtensor.axis_index
  // CHECK: "dtensor.shard_permute"(%{{.*}}) {{.*}} (tensor<3x3xf32>) -> tensor<3x3xf32>
  // CHECK-NOT: dtensor.shard_permute
  %0 = stablehlo.slice %a [5:6, 0:3] : (tensor<6x3xf32>) -> tensor<1x3xf32>
  %1 = "dtensor.shard_permute"(%0) {axes = #dtensor.axes<@mesh, ["y"]>, readers = array<i64: 1, 2, 3>, sources = array<i64: 3, 0, 1, 2>} : (tensor<1x3xf32>) -> tensor<1x3xf32>
  %2 = stablehlo.slice %a [3:4, 0:3] : (tensor<6x3xf32>) -> tensor<1x3xf32>
  %3 = "dtensor.shard_permute"(%2) {axes = #dtensor.axes<@mesh, ["y"]>, readers = array<i64: 0, 1>, sources = array<i64: 3, 0, 1, 2>} : (tensor<1x3xf32>) -> tensor<1x3xf32>
  %4 = stablehlo.slice %a [1:2, 0:3] : (tensor<6x3xf32>) -> tensor<1x3xf32>
  %5 = "dtensor.shard_permute"(%4) {axes = #dtensor.axes<@mesh, ["y"]>, sources = array<i64: 3, 0, 1, 2>} : (tensor<1x3xf32>) -> tensor<1x3xf32>
  return %1, %3, %5 : tensor<1x3xf32>, tensor<1x3xf32>, tensor<1x3xf32>
}
