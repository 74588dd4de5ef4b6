// RUN: dtensor-opt %s --split-input-file --dtensor-expand | filecheck %s

// A bit depends on its place among all bits: each device makes them all and keeps its own.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @bits
func.func @bits(%key: tensor<2xui64> {dtensor.layout = #dtensor.layout<@mesh, [{}]>})
    -> (tensor<2xui64> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}, tensor<6x8xui32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}]>}) {
  // CHECK: %[[STATE:.*]], %[[BITS:.*]] = stablehlo.rng_bit_generator
  // CHECK-SAME: (tensor<2xui64>, tensor<6x8xui32>)
  // CHECK-DAG: "dtensor.all_slice"{{.*}}["x"]{{.*}}dim = 0
  // CHECK-DAG: "dtensor.all_slice"{{.*}}["y"]{{.*}}dim = 1
  // CHECK: return %[[STATE]], %{{.*}} : tensor<2xui64>, tensor<3x2xui32>
  %0:2 = "stablehlo.rng_bit_generator"(%key) {rng_algorithm = #stablehlo<rng_algorithm PHILOX>, dtensor.results = [#dtensor.layout<@mesh, [{}]>, #dtensor.layout<@mesh, [{"x"}, {"y"}]>]} : (tensor<2xui64>) -> (tensor<2xui64>, tensor<6x8xui32>)
  return %0#0, %0#1 : tensor<2xui64>, tensor<6x8xui32>
}

// -----

// One device cannot disagree.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=1]>} : () -> ()

// CHECK-LABEL: func.func @on_one_device
func.func @on_one_device(%a: tensor<f32> {dtensor.layout = #dtensor.layout<@mesh, []>}, %shape: tensor<1xi64> {dtensor.layout = #dtensor.layout<@mesh, [{}]>})
    -> (tensor<4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}) {
  // CHECK: stablehlo.rng
  %0 = "stablehlo.rng"(%a, %a, %shape) {rng_distribution = #stablehlo<rng_distribution UNIFORM>, dtensor.results = [#dtensor.layout<@mesh, [{}]>]} : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
