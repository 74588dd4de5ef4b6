// RUN: dtensor-opt %s --split-input-file --dtensor-expand | filecheck %s

// A body that is no known combiner: each shard reduces from nothing, which a flag says, and the
// totals are reduced from the init value, in order.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %i: tensor<f32> {dtensor.layout = #dtensor.layout<@mesh, []>})
    -> (tensor<3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}) {
  // CHECK: %[[ALL:.*]] = stablehlo.constant dense<true> : tensor<4x3xi1>
  // CHECK: %[[NONE:.*]] = stablehlo.constant dense<false> : tensor<i1>
  // CHECK: %[[MINE:.*]]:2 = stablehlo.reduce(%arg0 init: %arg1), (%[[ALL]] init: %[[NONE]]) across dimensions = [0] : (tensor<4x3xf32>, tensor<4x3xi1>, tensor<f32>, tensor<i1>) -> (tensor<3xf32>, tensor<3xi1>)
  // CHECK: reducer(%[[X:.*]]: tensor<f32>, %[[Y:.*]]: tensor<f32>) (%[[HAS_X:.*]]: tensor<i1>, %[[HAS_Y:.*]]: tensor<i1>)
  // CHECK: %[[BOTH:.*]] = stablehlo.add %{{.*}}, %[[Y]]
  // CHECK: %[[LATER:.*]] = stablehlo.select %[[HAS_Y]], %[[BOTH]], %[[X]]
  // CHECK: %[[FOUND:.*]] = stablehlo.select %[[HAS_X]], %[[LATER]], %[[Y]]
  // CHECK: %[[ANY:.*]] = stablehlo.or %[[HAS_X]], %[[HAS_Y]]
  // CHECK: stablehlo.return %[[FOUND]], %[[ANY]]
  // CHECK: %[[ROW:.*]] = stablehlo.reshape %[[MINE]]#0 : (tensor<3xf32>) -> tensor<1x1x3xf32>
  // CHECK: %[[ALL:.*]] = "dtensor.all_gather"(%[[ROW]]){{.*}} : (tensor<1x1x3xf32>) -> tensor<2x1x3xf32>
  // CHECK: %[[ROWS:.*]] = stablehlo.reshape %[[ALL]] : (tensor<2x1x3xf32>) -> tensor<2x3xf32>
  // CHECK: %[[END:.*]] = stablehlo.reduce(%[[ROWS]] init: %arg1) across dimensions = [0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>
  // CHECK: return %[[END]]
  %0 = stablehlo.reduce(%a init: %i) across dimensions = [0] {dtensor.algorithm = "gather_totals", dtensor.results = [#dtensor.layout<@mesh, [{}]>]} : (tensor<8x3xf32>, tensor<f32>) -> tensor<3xf32>
    reducer(%x: tensor<f32>, %y: tensor<f32>) {
    %2 = stablehlo.multiply %x, %y : tensor<f32>
    %3 = stablehlo.add %2, %y : tensor<f32>
    stablehlo.return %3 : tensor<f32>
  }
  return %0 : tensor<3xf32>
}

// -----

// Each shard reduces a part of the totals of all.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<8x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %i: tensor<f32> {dtensor.layout = #dtensor.layout<@mesh, []>})
    -> (tensor<6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}) {
  // CHECK: %[[PART:.*]] = "dtensor.all_to_all"(%{{.*}}) {{.*}} : (tensor<1x1x6xf32>) -> tensor<2x1x3xf32>
  // CHECK: %[[ROWS:.*]] = stablehlo.reshape %[[PART]]
  // CHECK: %[[MINE:.*]] = stablehlo.reduce(%[[ROWS]] init: %arg1) across dimensions = [0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>
  // CHECK: %[[END:.*]] = "dtensor.all_gather"(%[[MINE]]) {{.*}} : (tensor<3xf32>) -> tensor<6xf32>
  // CHECK: return %[[END]]
  %0 = stablehlo.reduce(%a init: %i) across dimensions = [0] {dtensor.algorithm = "exchange_totals", dtensor.results = [#dtensor.layout<@mesh, [{}]>]} : (tensor<8x6xf32>, tensor<f32>) -> tensor<6xf32>
    reducer(%x: tensor<f32>, %y: tensor<f32>) {
    %2 = stablehlo.multiply %x, %y : tensor<f32>
    %3 = stablehlo.add %2, %y : tensor<f32>
    stablehlo.return %3 : tensor<f32>
  }
  return %0 : tensor<6xf32>
}

// -----

// Windows by such a body leave out what a shard at the edge has fetched of nobody.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %i: tensor<f32> {dtensor.layout = #dtensor.layout<@mesh, []>})
    -> (tensor<8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // CHECK: %[[READ:.*]] = "dtensor.halo_exchange"(%arg0) {{.*}} : (tensor<4x3xf32>) -> tensor<5x3xf32>
  // CHECK: %[[FILLED:.*]] = stablehlo.select %{{.*}}, %[[READ]], %{{.*}} : tensor<5x3xi1>, tensor<5x3xf32>
  // CHECK: %[[INSIDE:.*]] = stablehlo.and %{{.*}} : tensor<5xi1>
  // CHECK: %[[VALID:.*]] = stablehlo.broadcast_in_dim %[[INSIDE]], dims = [0] : (tensor<5xi1>) -> tensor<5x3xi1>
  // CHECK: %[[ONCE:.*]] = stablehlo.constant dense<true> : tensor<i1>
  // CHECK: "stablehlo.reduce_window"(%[[FILLED]], %[[VALID]], %arg1, %[[ONCE]]) <{padding = dense<0> : tensor<2x2xi64>, window_dimensions = array<i64: 2, 1>}>
  %0 = "stablehlo.reduce_window"(%a, %i) <{padding = dense<[[1, 0], [0, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 2, 1>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.multiply %x, %y : tensor<f32>
    %2 = stablehlo.add %1, %y : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }) {dtensor.algorithm = "halo", dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<8x3xf32>, tensor<f32>) -> tensor<8x3xf32>
  return %0 : tensor<8x3xf32>
}
