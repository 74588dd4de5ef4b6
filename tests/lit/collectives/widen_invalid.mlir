// RUN: not dtensor-opt %s --dtensor-widen-reductions='element=i32' 2>&1 | filecheck %s

// CHECK: element is 'i32'; give one of bf16, f16, f32, f64

func.func @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  return %arg0 : tensor<2xf32>
}
