// RUN: dtensor-opt %s --cse --dtensor-verify --mlir-timing -o %t 2>&1 | filecheck %s

// CHECK: wall-clock time per pass
// CHECK: {{[0-9.]+}} ms {{ *[0-9.]+}} % (read)
// CHECK: % cse
// CHECK: % dtensor-verify
// CHECK: % (write)
// CHECK: 100.0 % total
func.func @main() {
  return
}
