// A module that names no mesh can be given one.
// RUN: dtensor-opt %s --mesh x=2,y=4 | filecheck %s
// RUN: not dtensor-opt %s 2>&1 | filecheck %s --check-prefix=WITHOUT

// CHECK: "dtensor.mesh"() {mesh = #dtensor.mesh<["x"=2, "y"=4]>, sym_name = "mesh"} : () -> ()
// CHECK: #dtensor.layout<@mesh, [{"y"}]>
// WITHOUT: error: argument 0: unknown mesh @mesh; add a "dtensor.mesh" operation, or --mesh x=2
func.func @main(%arg0: tensor<4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>}) {
  return
}
