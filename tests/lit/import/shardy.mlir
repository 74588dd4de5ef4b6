// RUN: dtensor-opt %s --split-input-file --dtensor-import | filecheck %s

// What jax.jit(f).lower(x).as_text() prints, with in_shardings and with_sharding_constraint.

// CHECK-LABEL: module @jit_f
// CHECK-NOT: sdy
// CHECK: "dtensor.mesh"() {mesh = #dtensor.mesh<["x"=2, "y"=4]>, sym_name = "mesh"}
module @jit_f attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=4]> {stablehlo.mesh = {axes = [{name = "x", size = 2 : i64}, {name = "y", size = 4 : i64}]}}
  // CHECK: func.func public @main
  // CHECK-SAME: %arg0: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}
  // CHECK-SAME: %arg1: tensor<16x32xf32>)
  // CHECK-SAME: -> (tensor<8x32xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>, jax.result_info = "result"})
  func.func public @main(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %arg1: tensor<16x32xf32>) -> (tensor<8x32xf32> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    // PartitionSpec(UNCONSTRAINED, "y")
    // CHECK: "dtensor.relayout"(%0) {layout = #dtensor.layout<@mesh, [{?}, {"y"}]>} : (tensor<8x32xf32>)
    %1 = sdy.sharding_constraint %0 <@mesh, [{?}, {"y"}]> : tensor<8x32xf32>
    // PartitionSpec(("x", "y"), None)
    // CHECK: "dtensor.relayout"({{.*}}) {layout = #dtensor.layout<@mesh, [{"x", "y"}, {}]>} : (tensor<8x32xf32>)
    %2 = sdy.sharding_constraint %1 <@mesh, [{"x", "y"}, {}]> : tensor<8x32xf32>
    return %2 : tensor<8x32xf32>
  }
}

// -----

// Equal meshes of several NamedShardings, as jax writes them after merging programs.

// CHECK-LABEL: module @several_meshes
// CHECK-NOT: sdy
// CHECK-NOT: mesh_0
module @several_meshes {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  sdy.mesh @mesh_0 = <["x"=2, "y"=4]>
  // CHECK: %arg0: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>}
  func.func public @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh_0, [{"y"}]>}) -> tensor<8xf32> {
    // CHECK: "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{"x"}]>}
    %0 = sdy.sharding_constraint %arg0 <@mesh_0, [{"x"}]> : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// Parts of axes, axes on open dimensions, priorities, partial sums.

// CHECK-LABEL: module @forms
module @forms {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  // CHECK: %arg0: tensor<8x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y":(1)2, ?}p1, {"y":(2)2}]>}
  func.func public @main(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y":(1)2, ?}p1, {"y":(2)2}]>}) -> tensor<8x8xf32> {
    // CHECK: "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{"y"}, {}], partial = {sum: "x"}>}
    %0 = sdy.sharding_constraint %arg0 <@mesh, [{"y"}, {}], unreduced={"x"}> : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// -----

// Constraints inside loops and branches count as well.

// CHECK-LABEL: module @regions
module @regions {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%arg0: tensor<8xf32>, %arg1: tensor<i1>) -> tensor<8xf32> {
    // CHECK: "stablehlo.if"
    %0 = "stablehlo.if"(%arg1) ({
      // CHECK: "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{"x"}]>}
      %1 = sdy.sharding_constraint %arg0 <@mesh, [{"x"}]> : tensor<8xf32>
      stablehlo.return %1 : tensor<8xf32>
    }, {
      stablehlo.return %arg0 : tensor<8xf32>
    }) : (tensor<i1>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// A dtensor layout of an argument says more than Shardy's and stays.

// CHECK-LABEL: module @both
module @both {
  sdy.mesh @mesh = <["x"=2]>
  "dtensor.mesh"() {sym_name = "m", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
  // CHECK: %arg0: tensor<8x6xf32> {dtensor.layout = #dtensor.layout<@m, [{"x"}, {}]>}
  func.func public @main(%arg0: tensor<8x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>, dtensor.layout = #dtensor.layout<@m, [{"x"}, {}]>}) -> tensor<8x6xf32> {
    return %arg0 : tensor<8x6xf32>
  }
}

// -----

// Beside axes of type Auto, jax constrains every scalar in a reducer or a comparator to be whole over
// the Explicit ones. A scalar has no other layout.

// CHECK-LABEL: module @scalars_in_a_reducer
module @scalars_in_a_reducer {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%a: tensor<4xf32>, %i: tensor<f32>) -> tensor<f32> {
    // CHECK: stablehlo.reduce(%arg0 init: %arg1) applies stablehlo.add across dimensions = [0]
    %0 = "stablehlo.reduce"(%a, %i) <{dimensions = array<i64: 0>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      %c = sdy.sharding_constraint %s <@mesh, [], replicated={"x"}> : tensor<f32>
      stablehlo.return %c : tensor<f32>
    }) : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
}
