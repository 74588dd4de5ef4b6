// RUN: dtensor-opt %s --split-input-file --mesh x=2,y=4 --dtensor-import | filecheck %s

// GSPMD's shardings list the devices of each tile; they become layouts of the mesh that is given.

// CHECK-LABEL: module @boundary
module @boundary {
  // CHECK: func.func @main(%arg0: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}]>},
  // CHECK-SAME: %arg1: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y", "x"}, {}]>},
  // CHECK-SAME: %arg2: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>},
  // CHECK-SAME: %arg3: tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y":(1)2}]>},
  // CHECK-SAME: %arg4: tensor<8x16xf32>)
  // CHECK-SAME: -> (tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>})
  func.func @main(%a: tensor<8x16xf32> {mhlo.sharding = "{devices=[2,4]<=[8]}"},
                  %b: tensor<8x16xf32> {mhlo.sharding = "{devices=[8,1]<=[2,4]T(1,0)}"},
                  %c: tensor<8x16xf32> {mhlo.sharding = "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"},
                  %d: tensor<8x16xf32> {mhlo.sharding = "{devices=[2,2,2]0,1,2,3,4,5,6,7 last_tile_dim_replicate}"},
                  %e: tensor<8x16xf32>) -> (tensor<8x16xf32> {mhlo.sharding = "{replicated}"}) {
    return %a : tensor<8x16xf32>
  }
}

// -----

// The call constrains its operand, but for dimensions that it leaves open.

// CHECK-LABEL: module @constraints
module @constraints {
  func.func @main(%a: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
    // CHECK: %[[R:.*]] = "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{"x"}, {?}]>}
    %0 = stablehlo.custom_call @Sharding(%a) {backend_config = "unspecified_dims=[1]", mhlo.sharding = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    // CHECK: %[[B:.*]]:2 = stablehlo.optimization_barrier %[[R]], %arg0
    // CHECK-DAG: "dtensor.relayout"(%[[B]]#0) {layout = #dtensor.layout<@mesh, [{"y"}, {}]>}
    // CHECK-DAG: "dtensor.relayout"(%[[B]]#1) {layout = #dtensor.layout<@mesh, [{}, {}]>}
    %1:2 = stablehlo.optimization_barrier {mhlo.sharding = "{{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}, {replicated}}"} %0, %a : tensor<8x16xf32>, tensor<8x16xf32>
    return %1#0, %1#1 : tensor<8x16xf32>, tensor<8x16xf32>
  }
}
