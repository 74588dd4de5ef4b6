// RUN: dtensor-opt %s --dtensor-insert-relayouts --dtensor-expand --dtensor-report-cost --mlir-print-debuginfo | filecheck %s

// Ids in the locations of a printed module speak of the ledger of the run that printed it. They are
// forgotten where it is read: what caused a collective was looked up among the operations of this run.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4]>} : () -> ()

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<8x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
    -> (tensor<8x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  // CHECK: "dtensor.all_gather"(%arg0)
  // CHECK: stablehlo.tanh {{.*}} loc(#[[TANH:.*]])
  // CHECK-NOT: fused<7 :
  // CHECK-NOT: fused<4294967299 :
  // CHECK: #[[LINE:.*]] = loc("step.py":3:5)
  // CHECK: #[[TANH]] = loc("tanh"(#[[LINE]]))
  %0 = stablehlo.tanh %a {dtensor.algorithm = "local",
      dtensor.operands = [#dtensor.layout<@mesh, [{}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]}
      : tensor<8x6xf32> loc(fused<7>["tanh"(fused<4294967299>["step.py":3:5])])
  return %0 : tensor<8x6xf32> loc(fused<8>["step.py":4:5])
}
