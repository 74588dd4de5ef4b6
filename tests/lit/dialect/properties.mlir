// RUN: dtensor-opt %s | filecheck %s

// Attributes may be written as properties, `<{...}>`; they are printed as the others are.

// CHECK: "dtensor.mesh"() {mesh = #dtensor.mesh<["x"=2, "y"=4]>, sym_name = "mesh"} : () -> ()
"dtensor.mesh"() <{sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>}> : () -> ()

// CHECK-LABEL: func.func @uses_follow
func.func @uses_follow(%arg0: tensor<4xf32>) -> tensor<8xf32> {
  // CHECK: %[[GATHERED:.*]] = "dtensor.all_gather"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64} :
  %0 = "dtensor.all_gather"(%arg0) <{axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64}> : (tensor<4xf32>) -> tensor<8xf32>
  // CHECK: return %[[GATHERED]]
  return %0 : tensor<8xf32>
}

// Some may be properties, and others not.

// CHECK-LABEL: func.func @both
func.func @both(%arg0: tensor<4xf32>) -> tensor<8xf32> {
  // CHECK: "dtensor.all_gather"(%{{.*}}) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64} :
  %0 = "dtensor.all_gather"(%arg0) <{axes = #dtensor.axes<@mesh, ["x"]>}> {dim = 0 : i64} : (tensor<4xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
