// RUN: dtensor-opt %s --lock %t.lock && filecheck %s --input-file %t.lock
// RUN: dtensor-opt %s --check %t.lock
// RUN: sed -e 's/{"y"}, {}/{}, {}/' -e 's/{}, {"y"}/{}, {}/' %s > %t.mlir && not dtensor-opt %t.mlir --check %t.lock 2>&1 | filecheck %s --check-prefix OTHER

// What is sent is written to a file, and a plan that sends something else fails the check.

// CHECK: mesh x=2 y=4
// CHECK-NEXT: total 768
// CHECK-NEXT: kind
// CHECK-NEXT: all_reduce {{ *}}y {{ *}}f32 {{ *}}8x16 {{ *}}768 {{ *}}1 {{ *}}1 {{ *}}lock.mlir
// OTHER: tmp.lock has
// OTHER-SAME: all_reduce over y of f32 8x16, 768 bytes, which the plan has not
"dtensor.mesh"() {mesh = #dtensor.mesh<["x"=2, "y"=4]>, sym_name = "mesh"} : () -> ()
func.func @main(%a: tensor<8x32xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>}, %b: tensor<32x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}) -> (tensor<8x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}
