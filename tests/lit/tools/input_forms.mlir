// A module may come from a file or stdin, as text or as bytecode; the output is the same.
// RUN: dtensor-opt %s | filecheck %s
// RUN: dtensor-opt < %s | filecheck %s
// RUN: dtensor-opt - < %s | filecheck %s
// RUN: dtensor-opt %s --emit-bytecode | dtensor-opt | filecheck %s
// RUN: dtensor-opt %s --emit-bytecode -o %t.mlirbc
// RUN: dtensor-opt %t.mlirbc -o %t.mlir
// RUN: filecheck %s --input-file=%t.mlir

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<2x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}
func.func @main(%arg0: tensor<2x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<2x3xf32> {
  // CHECK: stablehlo.tanh
  %0 = stablehlo.tanh %arg0 : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
