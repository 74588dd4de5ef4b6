// RUN: dtensor-opt %s --split-input-file --mesh x=2 --dtensor-import --dtensor-propagate 2>/dev/null | filecheck %s
// RUN: dtensor-opt %s --split-input-file --mesh x=2 --dtensor-import --dtensor-propagate 2>&1 >/dev/null | filecheck %s --check-prefix=SAID

// A barrier lets layouts pass forwards: the result follows.

// CHECK-LABEL: module @forward_follows
module @forward_follows {
  // CHECK: func.func @main({{.*}}) -> (tensor<8x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
  func.func @main(%a: tensor<8x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<8x6xf32> {
    %0 = "dtensor.propagation_barrier"(%a) {allowed_direction = "forward"} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    // CHECK: stablehlo.sine {{.*}} {{.*}}dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {}]>]
    %1 = stablehlo.sine %0 : tensor<8x6xf32>
    return %1 : tensor<8x6xf32>
  }
}

// -----

// Not backwards: the argument stays whole, and its result is cut behind the barrier.

// CHECK-LABEL: module @forward_alone
module @forward_alone {
  // CHECK: func.func @main(%arg0: tensor<8x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>})
  func.func @main(%a: tensor<8x6xf32>) -> (tensor<8x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
    // CHECK: stablehlo.sine {{.*}} {{.*}}dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]
    %0 = stablehlo.sine %a : tensor<8x6xf32>
    // CHECK: "dtensor.propagation_barrier"{{.*}}dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]
    %1 = "dtensor.propagation_barrier"(%0) {allowed_direction = "forward"} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    return %1 : tensor<8x6xf32>
  }
}

// -----

// CHECK-LABEL: module @backward_follows
module @backward_follows {
  // CHECK: func.func @main(%arg0: tensor<8x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
  func.func @main(%a: tensor<8x6xf32>) -> (tensor<8x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.sine %a : tensor<8x6xf32>
    %1 = "dtensor.propagation_barrier"(%0) {allowed_direction = "backward"} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    return %1 : tensor<8x6xf32>
  }
}

// -----

// CHECK-LABEL: module @backward_alone
module @backward_alone {
  // CHECK: func.func @main({{.*}}) -> (tensor<8x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>})
  func.func @main(%a: tensor<8x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<8x6xf32> {
    // CHECK: stablehlo.sine {{.*}} {{.*}}dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]
    %0 = stablehlo.sine %a : tensor<8x6xf32>
    // CHECK: "dtensor.propagation_barrier"{{.*}}dtensor.operands = [#dtensor.layout<@mesh, [{}, {}]>]
    %1 = "dtensor.propagation_barrier"(%0) {allowed_direction = "backward"} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    return %1 : tensor<8x6xf32>
  }
}

// -----

// With none, each side has what is given on it, and a constant on both sides joins nothing.

// CHECK-LABEL: module @apart
module @apart {
  // CHECK: func.func @main({{.*}}, %arg1: tensor<8x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>})
  func.func @main(%a: tensor<8x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %b: tensor<8x6xf32>) -> (tensor<8x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}) {
    %one = stablehlo.constant dense<1.0> : tensor<8x6xf32>
    // CHECK: stablehlo.multiply {{.*}} {{.*}}dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]
    %0 = stablehlo.multiply %a, %one : tensor<8x6xf32>
    // CHECK: "dtensor.propagation_barrier"{{.*}}dtensor.operands = [#dtensor.layout<@mesh, [{}, {"x"}]>]
    %1 = "dtensor.propagation_barrier"(%0) {allowed_direction = "none"} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %2 = stablehlo.add %1, %b : tensor<8x6xf32>
    %3 = stablehlo.add %2, %one : tensor<8x6xf32>
    return %3 : tensor<8x6xf32>
  }
}

// -----

// Where operations lead around a barrier, layouts pass it both ways, and that is said.

// SAID: layouts pass this propagation barrier both ways: other operations join what is before it to what is behind it; write a constraint on one side
// CHECK-LABEL: module @around
module @around {
  // CHECK: func.func @main(%arg0: tensor<8x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
  func.func @main(%a: tensor<8x6xf32>) -> (tensor<8x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.sine %a : tensor<8x6xf32>
    %1 = "dtensor.propagation_barrier"(%0) {allowed_direction = "forward"} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %2 = stablehlo.add %0, %1 : tensor<8x6xf32>
    return %2 : tensor<8x6xf32>
  }
}
