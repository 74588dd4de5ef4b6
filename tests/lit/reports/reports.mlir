// RUN: dtensor-opt %s --dtensor-report-cost='print=true' --dtensor-report-memory='print=true' 2>&1 >/dev/null | filecheck %s
// RUN: not dtensor-opt %s --dtensor-report-memory='max-bytes=100' 2>&1 | filecheck %s --check-prefix=LIMIT

// What one device sends, computes and holds can be printed anywhere after the expansion.

// CHECK: collective 0: all_reduce over y of f32 4x6, 144 bytes per device, once
// CHECK-NEXT: collective 1: all_gather over x of f32 8x6, 96 bytes per device, once
// CHECK-NEXT: local flops: 432
// CHECK-NEXT: peak memory: 648 bytes per device
// CHECK-NEXT: 216 bytes: argument 1 tensor<9x6xf32>
// CHECK-NEXT: 192 bytes: all_gather tensor<8x6xf32> at reports.mlir:21:10

// LIMIT: error: the program needs about 648 bytes per device, max_bytes_per_device is 100; split the largest tensors over more axes, or raise the limit: argument 1 tensor<9x6xf32>: 216 bytes; all_gather

module attributes {dtensor.local} {
  "dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

  func.func @main(%a: tensor<4x9xf32>, %b: tensor<9x6xf32>) -> tensor<8x6xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<4x9xf32>, tensor<9x6xf32>) -> tensor<4x6xf32>
    %1 = "dtensor.all_reduce"(%0) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %2 = "dtensor.all_gather"(%1) {axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64} : (tensor<4x6xf32>) -> tensor<8x6xf32>
    return %2 : tensor<8x6xf32>
  }
}
