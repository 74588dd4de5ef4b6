// RUN: dtensor-opt %s --split-input-file --verify-diagnostics --dtensor-import

// expected-error @+1 {{meshes differ: @mesh_0 is mesh(x=4, y=2, name=mesh_0), @mesh is mesh(x=2, y=4)}}
module @differing_meshes {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  sdy.mesh @mesh_0 = <["x"=4, "y"=2]>
  func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
    return %a : tensor<8xf32>
  }
}

// -----

// jax.shard_map inside the program
module @manual_region {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{a manual region (jax.shard_map) stands inside the program; dtensor expands whole programs: call shard_map outside, or write the region as ordinary operations}}
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%b: tensor<4xf32>) {
      %1 = stablehlo.tanh %b : tensor<4xf32>
      sdy.return %1 : tensor<4xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

module @collective_of_shardy {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
    // expected-error @+1 {{sdy.all_gather has no counterpart in dtensor; remove it}}
    %0 = sdy.all_gather [{"x"}] %a out_sharding=<@mesh, [{}]> : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

module @sharding_group {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{sdy.sharding_group has no counterpart in dtensor; remove it}}
    sdy.sharding_group %a group_id=0 : tensor<8xf32>
    return %a : tensor<8xf32>
  }
}

// -----

module @mesh_inside_the_sharding {
  sdy.mesh @mesh = <["x"=2]>
  // expected-error @+1 {{sharding #sdy.sharding<mesh<["x"=2]>, [{"x"}]> is not of the form #sdy.sharding<@mesh, [...]>}}
  func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<mesh<["x"=2]>, [{"x"}]>}) -> tensor<8xf32> {
    return %a : tensor<8xf32>
  }
}

// -----

module @uneven_argument {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  // expected-error @+1 {{argument 0: dimension 0 has 6 elements, not divisible by the 4 devices of axes ['y']; pad it to 8, or leave it whole}}
  func.func @main(%a: tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>}) -> tensor<6xf32> {
    return %a : tensor<6xf32>
  }
}

// -----

module @uneven_constraint {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%a: tensor<6xf32>) -> tensor<6xf32> {
    // expected-error @+1 {{dimension 0 has 6 elements, not divisible by the 4 devices of axes ['y']; pad it to 8, or leave it whole}}
    %0 = sdy.sharding_constraint %a <@mesh, [{"y"}]> : tensor<6xf32>
    return %0 : tensor<6xf32>
  }
}

// -----

module @constraint_that_does_not_divide {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%a: tensor<6x3xf32>) -> tensor<6x3xf32> {
    // expected-error @+1 {{a constraint asks for the layout [{"y"}, {}]: dimension 0 has 6 elements, not divisible by the 4 devices of axes ['y']; pad it to 8, or leave it whole}}
    %0 = sdy.sharding_constraint %a <@mesh, [{"y"}, {}]> : tensor<6x3xf32>
    return %0 : tensor<6x3xf32>
  }
}
