// Rewrites of a pass are left out by name; the others still run.
// RUN: dtensor-opt %s --dtensor-import --dtensor-fuse-cuts | filecheck %s
// RUN: dtensor-opt %s --dtensor-import --dtensor-fuse-cuts=without=chains | filecheck %s --check-prefix=APART
// RUN: dtensor-opt %s -p 'dtensor-import, dtensor-fuse-cuts{without="chains, narrow_moves"}' | filecheck %s --check-prefix=NEITHER
// RUN: not dtensor-opt %s --dtensor-fuse-cuts=without=chain 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not dtensor-opt %s -p 'dtensor-find-forms{without="orders,everything"}' 2>&1 | filecheck %s --check-prefix=OTHER

// CHECK: "dtensor.splice"(%arg0)
// CHECK-SAME: (tensor<8xui8>) -> tensor<8xui8>
// CHECK: stablehlo.convert

// APART: stablehlo.slice %arg0 [0:7] : (tensor<8xui8>)
// APART: stablehlo.concatenate

// NEITHER-NOT: stablehlo.slice %arg0
// NEITHER: stablehlo.concatenate

// UNKNOWN: pass 'dtensor-fuse-cuts' has no rewrite 'chain'; did you mean 'chains'?
// OTHER: pass 'dtensor-find-forms' has no rewrite 'everything'; known are joined, associative_scans, reversed_loops

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

func.func @main(%u: tensor<8xui8> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) -> tensor<8xf32> {
  %wide = stablehlo.convert %u : (tensor<8xui8>) -> tensor<8xf32>
  %last = stablehlo.slice %wide [7:8] : (tensor<8xf32>) -> tensor<1xf32>
  %rest = stablehlo.slice %wide [0:7] : (tensor<8xf32>) -> tensor<7xf32>
  %0 = stablehlo.concatenate %last, %rest, dim = 0 : (tensor<1xf32>, tensor<7xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
