// RUN: dtensor-opt %s -p dtensor-import,dtensor-propagate | dtensor-opt -p dtensor-verify-plan,dtensor-insert-relayouts,dtensor-verify-plan | filecheck %s

// A program without operations is planned as well, where its result leaves in another layout.

// CHECK: %[[MOVED:.*]] = "dtensor.relayout"(%arg0)
// CHECK: return %[[MOVED]]
"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
func.func @main(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
    -> (tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>}) {
  return %a : tensor<8x12xf32>
}
