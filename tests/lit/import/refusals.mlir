// RUN: dtensor-opt %s --split-input-file --verify-diagnostics --dtensor-import

module {
  // expected-error @+1 {{no mesh: give the module a dtensor.mesh, or pass --mesh x=2,y=4 (in Python mesh=)}}
  func.func @no_mesh(%a: tensor<4xf32>) -> tensor<4xf32> {
    return %a : tensor<4xf32>
  }
}

// -----

module {
  "dtensor.mesh"() {sym_name = "first", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
  "dtensor.mesh"() {sym_name = "second", mesh = #dtensor.mesh<["x"=4]>} : () -> ()
  // expected-error @+1 {{meshes differ: @second is mesh(x=4, name=second), @first is mesh(x=2, name=first); a program is compiled for one mesh}}
  func.func @differing_meshes(%a: tensor<4xf32> {dtensor.layout = #dtensor.layout<@first, [{"x"}]>})
      -> (tensor<4xf32> {dtensor.layout = #dtensor.layout<@second, [{"x"}]>}) {
    return %a : tensor<4xf32>
  }
}

// -----

// The order of the axes is part of a mesh.
module {
  "dtensor.mesh"() {sym_name = "a", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
  "dtensor.mesh"() {sym_name = "b", mesh = #dtensor.mesh<["y"=4, "x"=2]>} : () -> ()
  // expected-error @+1 {{meshes differ: @b is mesh(y=4, x=2, name=b), @a is mesh(x=2, y=4, name=a)}}
  func.func @main(%a: tensor<4xf32> {dtensor.layout = #dtensor.layout<@a, [{"x"}]>})
      -> (tensor<4xf32> {dtensor.layout = #dtensor.layout<@b, [{"x"}]>}) {
    return %a : tensor<4xf32>
  }
}

// -----

// expected-error @+1 {{the module has 2 functions, none called @main; name the entry function @main}}
module {
  "dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
  func.func @one(%a: tensor<4xf32>) -> tensor<4xf32> {
    return %a : tensor<4xf32>
  }
  func.func @other(%a: tensor<4xf32>) -> tensor<4xf32> {
    return %a : tensor<4xf32>
  }
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
func.func private @callee(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{call of @callee is not inlined; run `inline` before}}
  %0 = func.call @callee(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
func.func @constraint_that_says_nothing(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{custom call @Sharding has no mhlo.sharding that says how; remove it}}
  %0 = stablehlo.custom_call @Sharding(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
func.func @gspmd_manual(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{GSPMD's sharding {manual} is none of {replicated}, {maximal device=0} and {devices=[...]<=[...]}; lower with Shardy, or give layouts}}
  %0 = stablehlo.sine %a {mhlo.sharding = "{manual}"} : tensor<4xf32>
  %1 = stablehlo.sine %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
func.func @gspmd_of_more_devices(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{GSPMD's sharding {devices=[4]<=[4]} is for 4 devices and rank 1, where the mesh has 2 and the array rank 1; give the mesh it was made for}}
  %0 = stablehlo.custom_call @Sharding(%a) {mhlo.sharding = "{devices=[4]<=[4]}"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()
func.func @gspmd_in_another_order(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{GSPMD's sharding {devices=[4]0,2,3,1} counts devices in an order that no layout of mesh(x=4) has; give the mesh it was made for}}
  %0 = stablehlo.custom_call @Sharding(%a) {mhlo.sharding = "{devices=[4]0,2,3,1}"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error @+1 {{the module holds Shardy's annotations as XLA carries them (xla.sdy.*); give the module that XLA was given, with sdy.sharding}}
module @carried_by_xla attributes {mhlo.frontend_attributes = {xla.sdy.meshes = "{mesh = #sdy.mesh<[\22x\22=4]>}"}} {
  "dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()
  func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    return %a : tensor<4xf32>
  }
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
func.func @shard_map_of_gspmd(%a: tensor<4xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{custom call @SPMDFullToShardShape is how GSPMD writes jax.shard_map; lower with Shardy (jax_use_shardy_partitioner=True, the default)}}
  %0 = stablehlo.custom_call @SPMDFullToShardShape(%a) : (tensor<4xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
func.func @asks_for_its_device() -> tensor<ui32> {
  // expected-error @+1 {{stablehlo.partition_id is written for several devices already; write the program for one device, or this part of it in a jax.shard_map}}
  %0 = stablehlo.partition_id : tensor<ui32>
  return %0 : tensor<ui32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
func.func @asks_for_its_replica() -> tensor<ui32> {
  // expected-error @+1 {{stablehlo.replica_id is written for several devices already}}
  %0 = stablehlo.replica_id : tensor<ui32>
  return %0 : tensor<ui32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
func.func @gathers_by_hand(%a: tensor<4xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{stablehlo.all_gather is written for several devices already}}
  %0 = "stablehlo.all_gather"(%a) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<4xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
func.func @reduces_by_hand_in_a_branch(%a: tensor<4xf32>, %p: tensor<i1>) -> tensor<4xf32> {
  %0 = "stablehlo.if"(%p) ({
    // expected-error @+1 {{stablehlo.all_reduce is written for several devices already}}
    %1 = "stablehlo.all_reduce"(%a) ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %2 = stablehlo.add %x, %y : tensor<f32>
        stablehlo.return %2 : tensor<f32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<4xf32>) -> tensor<4xf32>
    stablehlo.return %1 : tensor<4xf32>
  }, {
    stablehlo.return %a : tensor<4xf32>
  }) : (tensor<i1>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
func.func @permutes_by_hand(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{stablehlo.collective_permute is written for several devices already}}
  %0 = "stablehlo.collective_permute"(%a) {source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
func.func @talks_to_the_host(%t: !stablehlo.token) -> tensor<4xf32> {
  // expected-error @+1 {{stablehlo.infeed talks to the host or to other programs and cannot be expanded}}
  %0:2 = "stablehlo.infeed"(%t) {infeed_config = ""} : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
  return %0#0 : tensor<4xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
func.func private @softmax_by_hand(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{composite "mylib.softmax" is not decomposed; run `dtensor-inline` before, or define it with dtensor.define_op}}
  %0 = stablehlo.composite "mylib.softmax" %a {decomposition = @softmax_by_hand} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

module {
  "dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
  func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{stablehlo.custom_call names @comparator, which the module does not define; add it}}
    %0 = stablehlo.custom_call @a_call(%a) {called_computations = [@comparator]} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// Meshes of the same axes over other devices are not one mesh.
module {
  "dtensor.mesh"() {sym_name = "a", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
  "dtensor.mesh"() {sym_name = "b", mesh = #dtensor.mesh<["x"=2], device_ids = [2, 3]>} : () -> ()
  // expected-error @+1 {{meshes differ: @b is mesh(x=2, device_ids=[2, 3], name=b), @a is mesh(x=2, name=a); a program is compiled for one mesh}}
  func.func @other_devices(%a: tensor<4xf32> {dtensor.layout = #dtensor.layout<@a, [{"x"}]>})
      -> (tensor<4xf32> {dtensor.layout = #dtensor.layout<@b, [{"x"}]>}) {
    return %a : tensor<4xf32>
  }
}

// -----

module {
  "dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
  func.func @constraint_in_a_reducer(%a: tensor<4xf32>, %i: tensor<f32>) -> tensor<f32> {
    %0 = "stablehlo.reduce"(%a, %i) <{dimensions = array<i64: 0>}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %s = stablehlo.add %l, %r : tensor<f32>
      // expected-error @+1 {{a layout constraint stands inside the body of stablehlo.reduce, whose values are single elements; put it on the operands or the result instead}}
      %c = "dtensor.relayout"(%s) {layout = #dtensor.layout<@mesh, [], partial = {sum: "x"}>} : (tensor<f32>) -> tensor<f32>
      stablehlo.return %c : tensor<f32>
    }) : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
}

// -----

module @several_meshes_and_none_named {
  sdy.mesh @first = <["x"=2]>
  sdy.mesh @second = <["x"=4]>
  // expected-error @+1 {{the program names none of the module's meshes: pass --mesh x=2,y=4 (in Python mesh=)}}
  func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    return %a : tensor<4xf32>
  }
}

// -----

module @carried_by_an_argument {
  "dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()
  // expected-error @+1 {{the module holds Shardy's annotations as XLA carries them (xla.sdy.*); give the module that XLA was given, with sdy.sharding}}
  func.func @main(%a: tensor<4xf32> {mhlo.frontend_attributes = {xla.sdy.sharding = "#sdy.sharding<@mesh, [{\22x\22}]>"}}) -> tensor<4xf32> {
    return %a : tensor<4xf32>
  }
}

// -----

module @no_text {
  "dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()
  // expected-error @+1 {{argument 0: GSPMD's sharding 3 : i32 is no text; give it as a string}}
  func.func @main(%a: tensor<4xf32> {mhlo.sharding = 3 : i32}) -> tensor<4xf32> {
    return %a : tensor<4xf32>
  }
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{GSPMD's sharding {devices=[2]<=[2,1]T(1,1)} is malformed: repeated axis in transpose}}
  %0 = stablehlo.custom_call @Sharding(%a) {mhlo.sharding = "{devices=[2]<=[2,1]T(1,1)}"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{GSPMD's sharding {{replicated}, {replicated}} is of 2 results, not of 1}}
  %0 = stablehlo.tanh %a {mhlo.sharding = "{{replicated}, {replicated}}"} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{composite "dtensor.relayout" has no layout; make it with dtensor.relayout}}
  %0 = stablehlo.composite "dtensor.relayout" %a {decomposition = @identity} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @identity(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
