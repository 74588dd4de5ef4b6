// RUN: dtensor-opt %s --mesh x=2,y=4 --dtensor-import | filecheck %s
// RUN: dtensor-opt %s --mesh x=2,y=4 --dtensor-import --mlir-print-debuginfo | filecheck %s --check-prefix=IDS

// A module without annotations gets the mesh of the command line, and an id on every operation.

// CHECK: "dtensor.mesh"() {mesh = #dtensor.mesh<["x"=2, "y"=4]>, sym_name = "mesh"}
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%arg0: tensor<2x3xf32>) -> tensor<2x3xf32>
// IDS-LABEL: func.func @main
func.func @main(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK: stablehlo.tanh %arg0 : tensor<2x3xf32>
  // IDS: stablehlo.tanh %arg0 : tensor<2x3xf32> loc(#[[TANH:loc[0-9]+]])
  %0 = stablehlo.tanh %a : tensor<2x3xf32>
  // IDS: stablehlo.exponential %{{.*}} loc(#[[EXP:loc[0-9]+]])
  %1 = stablehlo.exponential %0 : tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// Ids are dense, in program order, and keep the location beneath.
// IDS-DAG: #[[TANH]] = loc(fused<0 : i64>[#[[TANH_LINE:loc[0-9]+]]])
// IDS-DAG: #[[EXP]] = loc(fused<1 : i64>[#[[EXP_LINE:loc[0-9]+]]])
// IDS-DAG: #[[TANH_LINE]] = loc({{.*}}:13:8)
// IDS-DAG: #[[EXP_LINE]] = loc({{.*}}:15:8)
