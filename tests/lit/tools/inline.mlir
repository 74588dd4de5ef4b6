// RUN: dtensor-opt %s --dtensor-inline --symbol-dce | filecheck %s
// RUN: dtensor-opt %s --inline --symbol-dce | filecheck %s --check-prefix=CXX
// RUN: dtensor-opt %s --dtensor-inline --symbol-dce --mlir-print-debuginfo | filecheck %s --check-prefix=WHERE

// C++ inline leaves the call, because it does not know what dtensor.relayout does.
// CXX: call @rows

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-NOT: func.func private
func.func private @rows(%arg0: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = "dtensor.relayout"(%arg0) {layout = #dtensor.layout<@mesh, [{"x"}, {}]>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

func.func private @tanh_of_rows(%arg0: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = call @rows(%arg0) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = stablehlo.tanh %0 : tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}

// CHECK-LABEL: func.func @twice_and_inside_a_branch
func.func @twice_and_inside_a_branch(%arg0: tensor<2x4xf32>, %arg1: tensor<i1>) -> tensor<2x4xf32> {
  // CHECK: %[[ROWS:.*]] = "dtensor.relayout"(%arg0)
  // CHECK: %[[TANH:.*]] = stablehlo.tanh %[[ROWS]]
  // WHERE: stablehlo.tanh {{.*}} loc(#[[SITE:.*]])
  // WHERE: #[[SITE]] = loc(callsite(#{{.*}} at #{{.*}}))
  %0 = call @tanh_of_rows(%arg0) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: stablehlo.if
  %1 = "stablehlo.if"(%arg1) ({
    // CHECK: %[[AGAIN:.*]] = "dtensor.relayout"(%[[TANH]])
    // CHECK: stablehlo.return %[[AGAIN]]
    %2 = call @rows(%0) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    stablehlo.return %2 : tensor<2x4xf32>
  }, {
    stablehlo.return %0 : tensor<2x4xf32>
  }) : (tensor<i1>) -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}

func.func private @shifted(%arg0: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = stablehlo.composite "mylib.square" %arg0 {decomposition = @square} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = stablehlo.add %0, %arg0 : tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}

func.func private @square(%arg0: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = stablehlo.multiply %arg0, %arg0 : tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

func.func private @identity(%arg0: tensor<2x4xf32>) -> tensor<2x4xf32> {
  return %arg0 : tensor<2x4xf32>
}

// What a composite computes is what its decomposition says, which may hold composites too; but
// dtensor.relayout is read by dtensor-import.

// CHECK-LABEL: func.func @composites
func.func @composites(%arg0: tensor<2x4xf32>) -> tensor<2x4xf32> {
  // CHECK: %[[SQUARE:.*]] = stablehlo.multiply %arg0, %arg0
  // CHECK: %[[SUM:.*]] = stablehlo.add %[[SQUARE]], %arg0
  %0 = stablehlo.composite "mylib.shifted" %arg0 {composite_attributes = {by = 1 : i32}, decomposition = @shifted, version = 3 : i32} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  // CHECK: stablehlo.composite "dtensor.relayout" %[[SUM]]
  %1 = stablehlo.composite "dtensor.relayout" %0 {composite_attributes = {layout = "#dtensor.layout<@mesh, [{}, {}]>"}, decomposition = @identity} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}

// Elements of a tuple are what it was made of.

// CHECK-LABEL: func.func @elements_of_tuples
func.func @elements_of_tuples(%arg0: tensor<2x4xf32>, %arg1: tensor<3xf32>) -> (tensor<2x4xf32>, tensor<3xf32>) {
  // CHECK-NOT: tuple
  // CHECK: return %arg0, %arg1
  %0 = stablehlo.tuple %arg0, %arg1 : tuple<tensor<2x4xf32>, tensor<3xf32>>
  %1 = stablehlo.tuple %arg1, %0 : tuple<tensor<3xf32>, tuple<tensor<2x4xf32>, tensor<3xf32>>>
  %2 = stablehlo.get_tuple_element %1[1] : (tuple<tensor<3xf32>, tuple<tensor<2x4xf32>, tensor<3xf32>>>) -> tuple<tensor<2x4xf32>, tensor<3xf32>>
  %3 = stablehlo.get_tuple_element %2[0] : (tuple<tensor<2x4xf32>, tensor<3xf32>>) -> tensor<2x4xf32>
  %4 = stablehlo.get_tuple_element %1[0] : (tuple<tensor<3xf32>, tuple<tensor<2x4xf32>, tensor<3xf32>>>) -> tensor<3xf32>
  return %3, %4 : tensor<2x4xf32>, tensor<3xf32>
}
