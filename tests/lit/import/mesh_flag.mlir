// RUN: dtensor-opt %s --mesh x=2,y=4 --dtensor-import | filecheck %s
// RUN: not dtensor-opt %s --mesh x=4,y=2 --dtensor-import 2>&1 | filecheck %s --check-prefix=OTHER

// --mesh may repeat the module's mesh, whatever it is called there, but not contradict it.

// CHECK: "dtensor.mesh"() {mesh = #dtensor.mesh<["x"=2, "y"=4]>, sym_name = "mesh"}
// CHECK-NOT: grid
// OTHER: error: meshes differ: @grid is mesh(x=2, y=4, name=grid), the mesh given is mesh(x=4, y=2); a program is compiled for one mesh
"dtensor.mesh"() {sym_name = "grid", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK: %arg0: tensor<4x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}]>}
func.func @main(%a: tensor<4x8xf32> {dtensor.layout = #dtensor.layout<@grid, [{"x"}, {"y"}]>})
    -> tensor<4x8xf32> {
  return %a : tensor<4x8xf32>
}
