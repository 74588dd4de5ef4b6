// RUN: dtensor-opt %s --split-input-file --verify-diagnostics --dtensor-import

// What is asked for and no layout says is warned of.

module @memory {
  sdy.mesh @mesh = <["x"=2]>
  // expected-warning @+2 {{argument 0 is asked for in pinned_host memory, but arguments and results lie in the memory that devices compute in; move it before or after the call}}
  // expected-warning @+1 {{result 0 is asked for in unpinned_host memory}}
  func.func @main(%a: tensor<8xf32> {mhlo.memory_kind = "pinned_host"}, %b: tensor<8xf32> {mhlo.memory_kind = "device"})
      -> (tensor<8xf32> {mhlo.memory_kind = "unpinned_host"}) {
    %0 = stablehlo.add %a, %b : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// Python is called from one device, as jax writes it, and the result is right on all.
module @one_device {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  sdy.mesh @maximal_mesh_3 = <[], device_ids=[3]>
  // expected-warning @+2 {{argument 0 is asked for on device 3 alone; it is whole on every device}}
  // expected-warning @+1 {{argument 1 is asked for on device 2 alone; it is whole on every device}}
  func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@maximal_mesh_3, []>}, %b: tensor<8xf32> {mhlo.sharding = "{maximal device=2}"}) -> tensor<8xf32> {
    // expected-warning @+1 {{the result of stablehlo.add is asked for on device 3 alone}}
    %0 = stablehlo.add %a, %b {sdy.sharding = #sdy.sharding_per_value<[<mesh<[], device_ids=[3]>, []>]>} : tensor<8xf32>
    // expected-warning @+1 {{the result of sdy.sharding_constraint is asked for on device 3 alone}}
    %1 = sdy.sharding_constraint %0 <@maximal_mesh_3, []> : tensor<8xf32>
    // expected-warning @+1 {{the operand of @Sharding is asked for on device 1 alone}}
    %2 = stablehlo.custom_call @Sharding(%1) {mhlo.sharding = "{maximal device=1}"} : (tensor<8xf32>) -> tensor<8xf32>
    %3 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%2) {sdy.sharding = #sdy.sharding_per_value<[<@maximal_mesh_3, []>]>} : (tensor<8xf32>) -> tensor<8xf32>
    return %3 : tensor<8xf32>
  }
}

// -----

module @of_one_device {
  sdy.mesh @mesh = <["x"=1]>
  func.func @main(%a: tensor<8xf32> {mhlo.sharding = "{maximal device=0}"}) -> tensor<8xf32> {
    return %a : tensor<8xf32>
  }
}

// -----

module @two_that_agree {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {?}]>, mhlo.sharding = "{devices=[2,4]<=[8]}"}) -> tensor<8x8xf32> {
    return %a : tensor<8x8xf32>
  }
}

// -----

module @two_that_do_not {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  // expected-error @+1 {{argument 0 is [{"x"}, {}] by sdy.sharding and [{"x"}, {"y"}] by mhlo.sharding; leave one out}}
  func.func @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>, mhlo.sharding = "{devices=[2,4]<=[8]}"}) -> tensor<8x8xf32> {
    return %a : tensor<8x8xf32>
  }
}

// -----

module @two_that_split_otherwise {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  // expected-error @+1 {{result 0 is [{"x", ?}, {}] by sdy.sharding and [{"y"}, {}] by mhlo.sharding; leave one out}}
  func.func @main(%a: tensor<8x8xf32>) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}, {}]>, mhlo.sharding = "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}) {
    return %a : tensor<8x8xf32>
  }
}
