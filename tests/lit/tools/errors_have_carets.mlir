// RUN: not dtensor-opt %s 2>&1 | filecheck %s --match-full-lines

//      CHECK: {{.*}}errors_have_carets.mlir:9:12: error: use of undeclared SSA value name
// CHECK-NEXT:   {{  return %0 : tensor<f32>}}
// CHECK-NEXT: {{             \^}}
//  CHECK-NOT: {{.*}}Traceback{{.*}}

func.func @main() -> tensor<f32> {
    return %0 : tensor<f32>
}
