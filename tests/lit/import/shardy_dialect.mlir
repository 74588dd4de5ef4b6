// RUN: dtensor-opt %s --split-input-file --dtensor-import | filecheck %s

// A sharding on an operation is a constraint of its results, open dimensions and all.

// CHECK-LABEL: module @on_operations
module @on_operations {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  // CHECK: func.func @main(%arg0: tensor<8x16xf32>)
  func.func @main(%a: tensor<8x16xf32>) -> tensor<8x16xf32> {
    // CHECK: %[[SIN:.*]] = stablehlo.sine %arg0 : tensor<8x16xf32>
    // CHECK: %[[R:.*]] = "dtensor.relayout"(%[[SIN]]) {layout = #dtensor.layout<@mesh, [{"x"}, {?}]>}
    // CHECK: stablehlo.add %[[R]], %[[R]]
    %0 = stablehlo.sine %a {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {?}]>]>} : tensor<8x16xf32>
    %1 = stablehlo.add %0, %0 : tensor<8x16xf32>
    return %1 : tensor<8x16xf32>
  }
}

// -----

// Each result of an operation has its own.

// CHECK-LABEL: module @several_results
module @several_results {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%a: tensor<8x16xf32>, %b: tensor<16xi32>) -> (tensor<8x16xf32>, tensor<16xi32>) {
    // CHECK: %[[B:.*]]:2 = stablehlo.optimization_barrier
    // CHECK-DAG: "dtensor.relayout"(%[[B]]#0) {layout = #dtensor.layout<@mesh, [{}, {"y"}]>}
    // CHECK-DAG: "dtensor.relayout"(%[[B]]#1) {layout = #dtensor.layout<@mesh, [{"x"}]>}
    %0:2 = stablehlo.optimization_barrier {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"y"}]>, <@mesh, [{"x"}]>]>} %a, %b : tensor<8x16xf32>, tensor<16xi32>
    return %0#0, %0#1 : tensor<8x16xf32>, tensor<16xi32>
  }
}

// -----

// Members of a group are laid out alike from the last one on; what reads one before is free.

// CHECK-LABEL: module @groups
module @groups {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%a: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    // CHECK: %[[SIN:.*]] = stablehlo.sine %arg0
    %0 = stablehlo.sine %a : tensor<8xf32>
    sdy.sharding_group %0 group_id=3 : tensor<8xf32>
    // CHECK: %[[COS:.*]] = stablehlo.cosine %[[SIN]]
    %1 = stablehlo.cosine %0 : tensor<8xf32>
    // CHECK: %[[ALIKE:.*]]:2 = "dtensor.alike"(%[[SIN]], %arg1)
    // CHECK-NOT: sharding_group
    sdy.sharding_group %b group_id=3 : tensor<8xf32>
    // CHECK: stablehlo.add %[[ALIKE]]#0, %[[COS]]
    %2 = stablehlo.add %0, %1 : tensor<8xf32>
    // CHECK: return {{.*}}, %[[ALIKE]]#1
    return %2, %b : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

// So does a branch behind the last one; where that stands in a branch, what stands outside is free.

// CHECK-LABEL: module @groups_and_branches
module @groups_and_branches {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%a: tensor<8xf32>, %b: tensor<8xf32>, %p: tensor<i1>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
    sdy.sharding_group %a group_id=3 : tensor<8xf32>
    // CHECK: %[[ALIKE:.*]]:2 = "dtensor.alike"(%arg0, %arg1)
    sdy.sharding_group %b group_id=3 : tensor<8xf32>
    %0 = "stablehlo.if"(%p) ({
      // CHECK: stablehlo.sine %[[ALIKE]]#0
      %1 = stablehlo.sine %a : tensor<8xf32>
      stablehlo.return %1 : tensor<8xf32>
    }, {
      // CHECK: stablehlo.return %[[ALIKE]]#1
      stablehlo.return %b : tensor<8xf32>
    }) : (tensor<i1>) -> tensor<8xf32>
    // CHECK: %[[SIN:.*]] = stablehlo.sine %[[ALIKE]]#0
    %2 = stablehlo.sine %a : tensor<8xf32>
    %3 = "stablehlo.if"(%p) ({
      %4 = stablehlo.cosine %b : tensor<8xf32>
      sdy.sharding_group %2 group_id=4 : tensor<8xf32>
      // CHECK: %[[INNER:.*]]:2 = "dtensor.alike"(%[[SIN]],
      sdy.sharding_group %4 group_id=4 : tensor<8xf32>
      // CHECK: stablehlo.add %[[INNER]]#0, %[[INNER]]#1
      %5 = stablehlo.add %2, %4 : tensor<8xf32>
      stablehlo.return %5 : tensor<8xf32>
    }, {
      // CHECK: stablehlo.return %[[SIN]]
      stablehlo.return %2 : tensor<8xf32>
    }) : (tensor<i1>) -> tensor<8xf32>
    // CHECK: return {{.*}}, %[[SIN]]
    return %0, %3, %2 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  }
}

// -----

// Shardy's own relayouts and collectives speak of global tensors.

// CHECK-LABEL: module @conversions
module @conversions {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%a: tensor<8x16xf32>) -> tensor<8x16xf32> {
    // CHECK: "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{"x"}, {}]>}
    %0 = sdy.reshard %a <@mesh, [{"x"}, {}]> : tensor<8x16xf32>
    // CHECK: "dtensor.relayout"({{.*}}) {layout = #dtensor.layout<@mesh, [{}, {}]>}
    %1 = sdy.all_gather [{"x"}, {}] %0 out_sharding=<@mesh, [{}, {}]> : tensor<8x16xf32>
    // CHECK: "dtensor.relayout"({{.*}}) {layout = #dtensor.layout<@mesh, [{}, {"y"}]>}
    %2 = sdy.all_slice [{}, {"y"}] %1 out_sharding=<@mesh, [{}, {"y"}]> : tensor<8x16xf32>
    // One that nothing reads asks for nothing.
    // CHECK-NOT: relayout
    %3 = sdy.reshard %2 <@mesh, [{"y"}, {}]> : tensor<8x16xf32>
    // CHECK: return
    return %2 : tensor<8x16xf32>
  }
}

// -----

// Meshes written in the sharding, meshes of one device, constants and edges.

// CHECK-LABEL: module @others
module @others {
  sdy.mesh @mesh = <["x"=2]>
  sdy.mesh @maximal = <[], device_ids=[0]>
  // CHECK: %arg0: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}
  // CHECK-SAME: %arg1: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}
  func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=2]>, [{"x"}]>}, %b: tensor<8xf32> {sdy.sharding = #sdy.sharding<@maximal, []>}) -> tensor<8xf32> {
    // CHECK: %[[C:.*]] = stablehlo.constant dense<1.000000e+00>
    %0 = sdy.constant dense<1.0> : tensor<8xf32>
    %1 = stablehlo.add %a, %b : tensor<8xf32>
    // CHECK: "dtensor.relayout"({{.*}}) {layout = #dtensor.layout<@mesh, [{"x", ?}]>}
    %2 = sdy.data_flow_edge %1 sharding=<@mesh, [{"x", ?}]> : tensor<8xf32>
    // CHECK-NOT: sdy
    // CHECK: stablehlo.add {{.*}}, %[[C]]
    %3 = stablehlo.add %2, %0 : tensor<8xf32>
    return %3 : tensor<8xf32>
  }
}

// -----

// A barrier keeps its direction; a sharding on it is a constraint of its result.

// CHECK-LABEL: module @barrier
module @barrier {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
    // CHECK: %[[B:.*]] = "dtensor.propagation_barrier"(%arg0) {allowed_direction = "none"}
    %0 = sdy.propagation_barrier %a allowed_direction=NONE : tensor<8xf32>
    // CHECK: "dtensor.relayout"(%[[B]]) {layout = #dtensor.layout<@mesh, [{?!"y"}]>}
    %1 = sdy.sharding_constraint %0 <@mesh, [{?}], replicated={"y"}> : tensor<8xf32>
    // CHECK: %[[F:.*]] = "dtensor.propagation_barrier"({{.*}}) {allowed_direction = "forward"}
    // CHECK: "dtensor.relayout"(%[[F]]) {layout = #dtensor.layout<@mesh, [{"y"}]>}
    %2 = sdy.propagation_barrier %1 allowed_direction=FORWARD {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"y"}]>]>} : tensor<8xf32>
    return %2 : tensor<8xf32>
  }
}

// -----

// A module may declare meshes that its program does not name.

// CHECK-LABEL: module @meshes_of_others
module @meshes_of_others {
  // CHECK-NOT: first
  // CHECK: "dtensor.mesh"() {mesh = #dtensor.mesh<["x"=2, "y"=4]>, sym_name = "second"}
  sdy.mesh @first = <["x"=8]>
  sdy.mesh @second = <["x"=2, "y"=4]>
  sdy.mesh @third = <["y"=8]>
  // CHECK: func.func @main(%arg0: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@second, [{"y"}, {}]>})
  func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@second, [{"y"}, {}]>}) -> tensor<8x16xf32> {
    // CHECK-NOT: @unused
    return %a : tensor<8x16xf32>
  }
  func.func private @unused(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@third, [{"y"}, {}]>}) -> tensor<8x16xf32> {
    return %a : tensor<8x16xf32>
  }
}

// -----

// A sharding may hold its mesh.

// CHECK-LABEL: module @mesh_in_a_sharding
module @mesh_in_a_sharding {
  // CHECK: "dtensor.mesh"() {mesh = #dtensor.mesh<["x"=4]>, sym_name = "mesh"}
  // CHECK: func.func @main(%arg0: tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>})
  func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=4]>, [{"x"}]>}) -> tensor<8xf32> {
    return %a : tensor<8xf32>
  }
}

// -----

// A program of one device.

// CHECK-LABEL: module @maximal
module @maximal {
  sdy.mesh @one = <[], device_ids=[0]>
  // CHECK: func.func @main(%arg0: tensor<8xf32> {dtensor.layout = #dtensor.layout<@one, [{}]>})
  func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@one, []>}) -> tensor<8xf32> {
    return %a : tensor<8xf32>
  }
}

// -----

// A named computation is its body; its shardings are constraints at its border.

// CHECK-LABEL: module @named_computations
module @named_computations {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func @main(%a: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
    // CHECK: %[[A:.*]] = "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{"x"}, {}]>}
    // CHECK: %[[B:.*]] = "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{?}, {"y", ?}]>}
    // CHECK: %[[MUL:.*]] = stablehlo.multiply %[[A]], %[[B]]
    // CHECK: %[[INNER:.*]] = "dtensor.relayout"(%[[MUL]]) {layout = #dtensor.layout<@mesh, [{?}, {"y"}]>}
    // CHECK: %[[SIN:.*]] = stablehlo.sine %[[INNER]]
    // CHECK-DAG: %[[FIRST:.*]] = "dtensor.relayout"(%[[INNER]]) {layout = #dtensor.layout<@mesh, [{}, {"y"}]>}
    // CHECK-DAG: %[[SECOND:.*]] = "dtensor.relayout"(%[[SIN]]) {layout = #dtensor.layout<@mesh, [{"x"}, {}]>}
    // CHECK: return %[[FIRST]], %[[SECOND]]
    %0:2 = sdy.named_computation<"outer">(%a, %a) in_shardings=[<@mesh, [{"x"}, {}]>, <@mesh, [{?}, {"y", ?}]>] out_shardings=[<@mesh, [{}, {"y"}]>, <@mesh, [{"x"}, {}]>] (%b: tensor<8x16xf32>, %c: tensor<8x16xf32>) {
      %1 = stablehlo.multiply %b, %c {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{?}, {"y"}]>]>} : tensor<8x16xf32>
      %2 = sdy.named_computation<"inner">(%1) (%d: tensor<8x16xf32>) {
        %3 = stablehlo.sine %d : tensor<8x16xf32>
        sdy.return %3 : tensor<8x16xf32>
      } : (tensor<8x16xf32>) -> tensor<8x16xf32>
      sdy.return %1, %2 : tensor<8x16xf32>, tensor<8x16xf32>
    } : (tensor<8x16xf32>, tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>)
    return %0#0, %0#1 : tensor<8x16xf32>, tensor<8x16xf32>
  }
}

// -----

// A constraint that nothing reads is of the value itself, and so of all who read it.

// CHECK-LABEL: module @constraints_that_nothing_reads
module @constraints_that_nothing_reads {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%a: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
    // CHECK: %[[A:.*]] = "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{}, {"y"}]>}
    // CHECK: %[[SIN:.*]] = stablehlo.sine %[[A]]
    // CHECK: %[[R:.*]] = "dtensor.relayout"(%[[SIN]]) {layout = #dtensor.layout<@mesh, [{"x"}, {?}]>}
    // CHECK: %[[COS:.*]] = stablehlo.cosine %[[R]]
    // CHECK: return %[[R]], %[[COS]]
    %0 = stablehlo.sine %a : tensor<8x16xf32>
    %1 = stablehlo.cosine %0 : tensor<8x16xf32>
    %2 = sdy.sharding_constraint %0 <@mesh, [{"x"}, {?}]> : tensor<8x16xf32>
    %3 = sdy.sharding_constraint %a <@mesh, [{}, {"y"}]> : tensor<8x16xf32>
    return %0, %1 : tensor<8x16xf32>, tensor<8x16xf32>
  }
}

// -----

// Without any reader, it asks for nothing.

// CHECK-LABEL: module @constraints_of_what_nothing_reads
module @constraints_of_what_nothing_reads {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%a: tensor<8x16xf32>) -> tensor<8x16xf32> {
    // CHECK: stablehlo.sine
    // CHECK-NEXT: return %arg0
    %0 = stablehlo.sine %a : tensor<8x16xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{"x"}, {?}]> : tensor<8x16xf32>
    return %a : tensor<8x16xf32>
  }
}
