// RUN: dtensor-opt %s --split-input-file --verify-diagnostics --dtensor-import

// expected-error @+1 {{meshes differ: @mesh_0 is mesh(x=4, y=2, name=mesh_0), @mesh is mesh(x=2, y=4)}}
module @differing_meshes {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  sdy.mesh @mesh_0 = <["x"=4, "y"=2]>
  func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
      -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh_0, [{"x"}]>}) {
    return %a : tensor<8xf32>
  }
}

// -----

// a device's number tells apart what the planner may treat alike
module @number_of_a_device {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%a: tensor<8xf32>) -> tensor<ui32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x", ?}]>] out_shardings=[<@mesh, []>] manual_axes={"x"} (%b: tensor<4xf32>) {
      // expected-error @+1 {{stablehlo.partition_id tells devices apart over y, which this region of jax.shard_map leaves to the compiler; use jax.lax.axis_index}}
      %1 = stablehlo.partition_id : tensor<ui32>
      sdy.return %1 : tensor<ui32>
    } : (tensor<8xf32>) -> tensor<ui32>
    return %0 : tensor<ui32>
  }
}

// -----

// shards that the axes left to the planner do not divide
module @uneven_shards {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%a: tensor<12x5xf32>) -> tensor<12x5xf32> {
    // expected-error @+1 {{in_shardings, 0: dimension 0 has 12 elements, not divisible by the 8 devices of axes ['x', 'y']; pad it to 16, or leave it whole}}
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x", "y"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%b: tensor<6x5xf32>) {
      sdy.return %b : tensor<6x5xf32>
    } : (tensor<12x5xf32>) -> tensor<12x5xf32>
    return %0 : tensor<12x5xf32>
  }
}

// -----

module @group_of_two_shapes {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%a: tensor<8xf32>, %b: tensor<4xf32>) -> tensor<8xf32> {
    sdy.sharding_group %a group_id=0 : tensor<8xf32>
    // expected-error @+1 {{tensor<4xf32> and tensor<8xf32> shall be laid out alike; give them one shape}}
    sdy.sharding_group %b group_id=0 : tensor<4xf32>
    return %a : tensor<8xf32>
  }
}

// -----

module @group_over_regions {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%a: tensor<8xf32>, %p: tensor<i1>) -> tensor<8xf32> {
    sdy.sharding_group %a group_id=0 : tensor<8xf32>
    %0 = "stablehlo.if"(%p) ({
      %1 = stablehlo.sine %a : tensor<8xf32>
      // expected-error @+1 {{sharding group 0 has members in several regions; constrain them to one layout instead}}
      sdy.sharding_group %1 group_id=0 : tensor<8xf32>
      stablehlo.return %1 : tensor<8xf32>
    }, {
      stablehlo.return %a : tensor<8xf32>
    }) : (tensor<i1>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// A sharding that holds its mesh is on that of the module.

sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<4xf32> {
  // expected-error @+1 {{sharding is on Mesh(z=4), the module is compiled for Mesh(x=2); use one mesh}}
  %0 = sdy.sharding_constraint %a <mesh<["z"=4]>, [{"z"}]> : tensor<4xf32>
  return %0 : tensor<4xf32>
}
