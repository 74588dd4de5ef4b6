// RUN: dtensor-opt %s -p dtensor-import | filecheck %s
// RUN: dtensor-opt %s --dtensor-spmd | filecheck %s --check-prefix=LOCAL

// What Shardy's rule says of a typed call, which reads the sizes of its buffers, defines it.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @main
// LOCAL-LABEL: func.func @main
// LOCAL-SAME: (%arg0: tensor<4x12x6xf32>, %arg1: tensor<12x5xf32>)
func.func @main(%a: tensor<8x12x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}, {}]>}, %b: tensor<12x5xf32>)
    -> (tensor<8x12xf32>, tensor<8x5xf32>, tensor<8x12xf32>, tensor<8x12xf32>, tensor<96xf32>) {
  // A factor to be replicated, one that nothing else has, and one that is passed on.
  // CHECK: @norm(%arg0) {api_version = 4 : i32, dtensor.op = {signature = "f0 f1 f2 -> f0 f1", whole = ["f1"]}}
  // LOCAL: @norm(%arg0) {{.*}} (tensor<4x12x6xf32>) -> tensor<4x12xf32>
  %0 = stablehlo.custom_call @norm(%a) {api_version = 4 : i32, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j]) {i=8, j=12, k=6} need_replication={j}, custom>} : (tensor<8x12x6xf32>) -> tensor<8x12xf32>
  // A reduction.
  // CHECK: @product(%0, %arg1) {api_version = 4 : i32, dtensor.op = {reduce = {f1 = "sum"}, signature = "f0 f1, f1 f2 -> f0 f2"}}
  // LOCAL: @product
  %1 = stablehlo.custom_call @product(%0, %b) {api_version = 4 : i32, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [j, k])->([i, k]) {i=8, j=12, k=5} reduction={j}, custom>} : (tensor<8x12xf32>, tensor<12x5xf32>) -> tensor<8x5xf32>
  // A call that may have other sizes written in its configuration, one with effects, and no rule.
  // CHECK: @opaque(%0) : (tensor<8x12xf32>)
  // LOCAL: @opaque{{.*}} (tensor<8x12xf32>)
  %2 = stablehlo.custom_call @opaque(%0) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=12}, custom>} : (tensor<8x12xf32>) -> tensor<8x12xf32>
  // CHECK: @prints(%0) {api_version = 4 : i32, has_side_effect = true}
  %3 = stablehlo.custom_call @prints(%0) {api_version = 4 : i32, has_side_effect = true, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=12}, custom>} : (tensor<8x12xf32>) -> tensor<8x12xf32>
  // Dimensions of several factors that others name apart are whole.
  // CHECK: @flat(%0) {api_version = 4 : i32, dtensor.op = {signature = "_ _ -> _"}}
  %4 = stablehlo.custom_call @flat(%0) {api_version = 4 : i32, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([ij]) {i=8, j=12}, custom>} : (tensor<8x12xf32>) -> tensor<96xf32>
  return %0, %1, %2, %3, %4 : tensor<8x12xf32>, tensor<8x5xf32>, tensor<8x12xf32>, tensor<8x12xf32>, tensor<96xf32>
}
