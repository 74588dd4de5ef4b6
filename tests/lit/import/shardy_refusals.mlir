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

// jax.shard_map over some axes of the mesh
module @partly_manual {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @+1 {{a region of jax.shard_map is manual over x and leaves y to the compiler; name all axes of the mesh in axis_names}}
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%b: tensor<4xf32>) {
      %1 = stablehlo.tanh %b : tensor<4xf32>
      sdy.return %1 : tensor<4xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
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
