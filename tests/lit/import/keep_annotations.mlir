// RUN: dtensor-opt %s --split-input-file --dtensor-keep-annotations | filecheck %s --check-prefix=KEPT
// RUN: dtensor-opt %s --split-input-file --dtensor-prepare --dtensor-import | filecheck %s

// Constants that are equal, and annotated unlike each other or not at all, stay apart.

// KEPT-LABEL: func.func @main
// KEPT: stablehlo.constant dense<3.0
// KEPT: %[[ROWS:.*]] = stablehlo.constant dense<3.0
// KEPT: sdy.sharding_constraint %[[ROWS]] <@mesh, [{"x"}, {}]>
// KEPT: %[[COLUMNS:.*]] = stablehlo.constant dense<3.0
// KEPT: sdy.sharding_constraint %[[COLUMNS]] <@mesh, [{}, {"y"}]>
// CHECK-LABEL: func.func @main
// CHECK: %[[C:.*]] = stablehlo.constant dense<3.0
// CHECK-DAG: %[[ROWS:.*]] = "dtensor.relayout"(%[[C]]) {layout = #dtensor.layout<@mesh, [{"x"}, {}]>}
// CHECK-DAG: %[[COLUMNS:.*]] = "dtensor.relayout"(%[[C]]) {layout = #dtensor.layout<@mesh, [{}, {"y"}]>}
// CHECK: return %[[C]], %[[ROWS]], %[[COLUMNS]]
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main() -> (tensor<8x12xf32>, tensor<8x12xf32>, tensor<8x12xf32>) {
  %0 = stablehlo.constant dense<3.0> : tensor<8x12xf32>
  %1 = stablehlo.constant {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} dense<3.0> : tensor<8x12xf32>
  %2 = stablehlo.constant {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"y"}]>]>} dense<3.0> : tensor<8x12xf32>
  return %0, %1, %2 : tensor<8x12xf32>, tensor<8x12xf32>, tensor<8x12xf32>
}

// -----

// A call and a composite lose nothing where they go.

// KEPT-LABEL: func.func @main
// KEPT: %[[CALLED:.*]] = call @sine
// KEPT: sdy.sharding_constraint %[[CALLED]] <@mesh, [{"x"}, {}]>
// KEPT: %[[COMPOSED:.*]] = stablehlo.composite "my.op"
// KEPT: sdy.sharding_constraint %[[COMPOSED]] <@mesh, [{}, {"y"}]>
// CHECK-LABEL: func.func @main
// CHECK: %[[CALLED:.*]] = stablehlo.sine
// CHECK: "dtensor.relayout"(%[[CALLED]]) {layout = #dtensor.layout<@mesh, [{"x"}, {}]>}
// CHECK: %[[COMPOSED:.*]] = stablehlo.cosine
// CHECK: "dtensor.relayout"(%[[COMPOSED]]) {layout = #dtensor.layout<@mesh, [{}, {"y"}]>}
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func private @sine(%a: tensor<8x12xf32>) -> tensor<8x12xf32> {
  %0 = stablehlo.sine %a : tensor<8x12xf32>
  return %0 : tensor<8x12xf32>
}
func.func private @cosine(%a: tensor<8x12xf32>) -> tensor<8x12xf32> {
  %0 = stablehlo.cosine %a : tensor<8x12xf32>
  return %0 : tensor<8x12xf32>
}
func.func @main(%a: tensor<8x12xf32>) -> (tensor<8x12xf32>, tensor<8x12xf32>) {
  %0 = call @sine(%a) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : (tensor<8x12xf32>) -> tensor<8x12xf32>
  %1 = stablehlo.composite "my.op" %a {decomposition = @cosine, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"y"}]>]>} : (tensor<8x12xf32>) -> tensor<8x12xf32>
  return %0, %1 : tensor<8x12xf32>, tensor<8x12xf32>
}

// -----

// GSPMD's, of several results.

// KEPT-LABEL: func.func @main
// KEPT: %[[BOTH:.*]]:2 = call @both
// KEPT-DAG: stablehlo.custom_call @Sharding(%[[BOTH]]#0) {mhlo.sharding = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"}
// KEPT-DAG: stablehlo.custom_call @Sharding(%[[BOTH]]#1) {mhlo.sharding = "{replicated}"}
// CHECK-LABEL: func.func @main
// CHECK-DAG: layout = #dtensor.layout<@mesh, [{"x"}, {}]>
// CHECK-DAG: layout = #dtensor.layout<@mesh, [{}, {}]>
"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func private @both(%a: tensor<8x12xf32>) -> (tensor<8x12xf32>, tensor<8x12xf32>) {
  %0 = stablehlo.sine %a : tensor<8x12xf32>
  %1 = stablehlo.cosine %a : tensor<8x12xf32>
  return %0, %1 : tensor<8x12xf32>, tensor<8x12xf32>
}
func.func @main(%a: tensor<8x12xf32>) -> (tensor<8x12xf32>, tensor<8x12xf32>) {
  %0:2 = call @both(%a) {mhlo.sharding = "{{devices=[2,1,4]<=[8] last_tile_dim_replicate}, {replicated}}"} : (tensor<8x12xf32>) -> (tensor<8x12xf32>, tensor<8x12xf32>)
  return %0#0, %0#1 : tensor<8x12xf32>, tensor<8x12xf32>
}

// -----

// So do shardings of arguments and results of functions that are inlined: Shardy's, GSPMD's and dtensor's.

// CHECK-LABEL: func.func @main
// CHECK: %[[ROWS:.*]] = "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh_0, [{"x"}, {}]>}
// CHECK: %[[SINE:.*]] = stablehlo.sine %[[ROWS]]
// CHECK: %[[COLUMNS:.*]] = "dtensor.relayout"(%[[SINE]]) {layout = #dtensor.layout<@mesh_0, [{}, {"y"}]>}
// CHECK: %[[BOTH:.*]] = "dtensor.relayout"(%[[COLUMNS]]) {layout = #dtensor.layout<@mesh_0, [{"y"}, {"x"}]>}
// CHECK: stablehlo.tanh %[[BOTH]]
sdy.mesh @mesh = <["x"=2, "y"=4]>
"dtensor.mesh"() {sym_name = "mesh_0", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%a: tensor<8x12xf32>) -> tensor<8x12xf32> {
  %0 = func.call @f(%a) : (tensor<8x12xf32>) -> tensor<8x12xf32>
  %1 = func.call @g(%0) : (tensor<8x12xf32>) -> tensor<8x12xf32>
  return %1 : tensor<8x12xf32>
}
func.func private @f(%a: tensor<8x12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<8x12xf32> {mhlo.sharding = "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}) {
  %0 = stablehlo.sine %a : tensor<8x12xf32>
  return %0 : tensor<8x12xf32>
}
func.func private @g(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh_0, [{"y"}, {"x"}]>}) -> tensor<8x12xf32> {
  %0 = stablehlo.tanh %a : tensor<8x12xf32>
  return %0 : tensor<8x12xf32>
}
