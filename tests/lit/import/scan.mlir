// RUN: dtensor-opt %s --dtensor-prepare --dtensor-import | filecheck %s

// jax.lax.scan calls a private function from its loop; after inlining, its constraint is in the
// loop, and the function is gone.

module @jit_s attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x16xf32> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    // CHECK: stablehlo.while
    %0:2 = stablehlo.while(%iterArg = %c, %iterArg_0 = %arg0) : tensor<i32>, tensor<8x16xf32>
    cond {
      %c_1 = stablehlo.constant dense<3> : tensor<i32>
      %1 = stablehlo.compare LT, %iterArg, %c_1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      // CHECK: %[[T:.*]] = stablehlo.tanh
      // CHECK-NEXT: %[[R:.*]] = "dtensor.relayout"(%[[T]]) {layout = #dtensor.layout<@mesh, [{}, {"y"}]>}
      // CHECK: stablehlo.return %{{.*}}, %[[R]]
      %1 = func.call @closed_call(%iterArg_0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
      %c_1 = stablehlo.constant dense<1> : tensor<i32>
      %2 = stablehlo.add %iterArg, %c_1 : tensor<i32>
      stablehlo.return %2, %1 : tensor<i32>, tensor<8x16xf32>
    }
    return %0#1 : tensor<8x16xf32>
  }
  // CHECK-NOT: closed_call
  func.func private @closed_call(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %0 = stablehlo.tanh %arg0 : tensor<8x16xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{}, {"y"}]> : tensor<8x16xf32>
    return %1 : tensor<8x16xf32>
  }
}
