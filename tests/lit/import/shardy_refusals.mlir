// RUN: dtensor-opt %s --split-input-file --verify-diagnostics --dtensor-import

module @differing_meshes {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  sdy.mesh @mesh_0 = <["x"=4, "y"=2]>
  // expected-error @+1 {{meshes differ: @mesh_0 is mesh(x=4, y=2, name=mesh_0), @mesh is mesh(x=2, y=4)}}
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

// groups of devices that hold different shards, or the same, as the compiler likes
module @groups_along_a_free_axis {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}]>] manual_axes={"x"} (%b: tensor<4xf32>) {
      // expected-error @+1 {{replica_groups of stablehlo.all_reduce differ along y, which this region of jax.shard_map leaves to the compiler; let them run over x alone, alike for each place along y, or make it manual too}}
      %1 = "stablehlo.all_reduce"(%b) <{replica_groups = dense<[[0,1],[2,3],[4,5],[6,7]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4xf32>) -> tensor<4xf32>
      sdy.return %1 : tensor<4xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// groups that run over both axes
module @groups_across_a_free_axis {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}]>] manual_axes={"x"} (%b: tensor<4xf32>) {
      // expected-error @+1 {{replica_groups of stablehlo.all_reduce differ along y, which this region of jax.shard_map leaves to the compiler; let them run over x alone, alike for each place along y, or make it manual too}}
      %1 = "stablehlo.all_reduce"(%b) <{replica_groups = dense<[[0,5],[1,4],[2,7],[3,6]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4xf32>) -> tensor<4xf32>
      sdy.return %1 : tensor<4xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// one group of all devices
module @all_devices {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}]>] manual_axes={"x"} (%b: tensor<4xf32>) {
      // expected-error @+1 {{replica_groups of stablehlo.all_reduce differ along y, which this region of jax.shard_map leaves to the compiler; let them run over x alone, alike for each place along y, or make it manual too}}
      %1 = "stablehlo.all_reduce"(%b) <{replica_groups = dense<[[0,1,2,3,4,5,6,7]]> : tensor<1x8xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4xf32>) -> tensor<4xf32>
      sdy.return %1 : tensor<4xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// groups over x whose devices stand in another order at one place along y
module @groups_unlike {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}]>] manual_axes={"x"} (%b: tensor<4xf32>) {
      // expected-error @+1 {{replica_groups of stablehlo.all_reduce differ along y, which this region of jax.shard_map leaves to the compiler; let them run over x alone, alike for each place along y, or make it manual too}}
      %1 = "stablehlo.all_reduce"(%b) <{replica_groups = dense<[[4,0],[1,5],[2,6],[3,7]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4xf32>) -> tensor<4xf32>
      sdy.return %1 : tensor<4xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// devices that send to their neighbours along y
module @pairs_along_a_free_axis {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}]>] manual_axes={"x"} (%b: tensor<4xf32>) {
      // expected-error @+1 {{source_target_pairs of stablehlo.collective_permute differ along y, which this region of jax.shard_map leaves to the compiler; let them run over x alone, alike for each place along y, or make it manual too}}
      %1 = "stablehlo.collective_permute"(%b) <{source_target_pairs = dense<[[0,1],[4,5]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (tensor<4xf32>) -> tensor<4xf32>
      sdy.return %1 : tensor<4xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// devices that send along x, at one place along y only
module @pairs_at_one_place {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}]>] manual_axes={"x"} (%b: tensor<4xf32>) {
      // expected-error @+1 {{source_target_pairs of stablehlo.collective_permute differ along y, which this region of jax.shard_map leaves to the compiler; let them run over x alone, alike for each place along y, or make it manual too}}
      %1 = "stablehlo.collective_permute"(%b) <{source_target_pairs = dense<[[0,4],[4,0]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (tensor<4xf32>) -> tensor<4xf32>
      sdy.return %1 : tensor<4xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// a device that the mesh does not have
module @no_such_device {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}]>] manual_axes={"x"} (%b: tensor<4xf32>) {
      // expected-error @+1 {{source_target_pairs of stablehlo.collective_permute names device 8, where mesh(x=2, y=4) has 8, counted from 0; name those}}
      %1 = "stablehlo.collective_permute"(%b) <{source_target_pairs = dense<[[0,8],[8,0]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (tensor<4xf32>) -> tensor<4xf32>
      sdy.return %1 : tensor<4xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// without a channel, replica_groups are of replicas
module @groups_of_replicas {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}]>] manual_axes={"x"} (%b: tensor<4xf32>) {
      // expected-error @+1 {{stablehlo.all_reduce has no channel_handle and no use_global_device_ids, so it would run over replicas, of which there is one; to run over devices, give it channel_handle and use_global_device_ids}}
      %1 = "stablehlo.all_reduce"(%b) <{replica_groups = dense<[[0,4],[1,5],[2,6],[3,7]]> : tensor<4x2xi64>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4xf32>) -> tensor<4xf32>
      sdy.return %1 : tensor<4xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}

// -----

// with a channel alone, they are of replicas too
module @groups_without_global_ids {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x", ?}]>] out_shardings=[<@mesh, [{"x", ?}]>] manual_axes={"x"} (%b: tensor<4xf32>) {
      // expected-error @+1 {{stablehlo.all_reduce has no use_global_device_ids, so it would run over replicas, of which there is one; to run over devices, give it channel_handle and use_global_device_ids}}
      %1 = "stablehlo.all_reduce"(%b) <{replica_groups = dense<[[0,4],[1,5],[2,6],[3,7]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<4xf32>) -> tensor<4xf32>
      sdy.return %1 : tensor<4xf32>
    } : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
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
