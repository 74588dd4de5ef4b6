// RUN: dtensor-opt %s --mesh x=8 --split-input-file --dtensor-import --dtensor-propagate | filecheck %s

// Where annotations disagree, what moves the fewest bytes wins.

// CHECK-LABEL: func.func @the_larger_operand_stays
func.func @the_larger_operand_stays(
    %a: tensor<1024x64xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %b: tensor<64x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
    -> (tensor<1024x16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // CHECK: stablehlo.dot_general {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {}]>, #dtensor.layout<@mesh, [{}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]}
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<1024x64xf32>, tensor<64x16xf32>) -> tensor<1024x16xf32>
  return %0 : tensor<1024x16xf32>
}

// -----

// The same program with a large weight: now the activations give way.
// CHECK-LABEL: func.func @a_large_weight_stays
func.func @a_large_weight_stays(
    %a: tensor<16x1024xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %b: tensor<1024x4096xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>})
    -> (tensor<16x4096xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // CHECK: stablehlo.dot_general {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}, {}]>, #dtensor.layout<@mesh, [{}, {"x"}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}]>]}
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<16x1024xf32>, tensor<1024x4096xf32>) -> tensor<16x4096xf32>
  return %0 : tensor<16x4096xf32>
}

// -----

// Two of three uses agree: the value is laid out for them, and moved for the third.
// CHECK-LABEL: func.func @most_bytes_decide
func.func @most_bytes_decide(
    %a: tensor<64x32xf32>, %b: tensor<64x32xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>},
    %c: tensor<64x32xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %d: tensor<64x32xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>})
    -> (tensor<64x32xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // CHECK: stablehlo.add %arg0, %arg1 {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {}]>, #dtensor.layout<@mesh, [{"x"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]}
  %0 = stablehlo.add %a, %b : tensor<64x32xf32>
  // CHECK: stablehlo.add {{.*}}, %arg2 {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {}]>, #dtensor.layout<@mesh, [{"x"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]}
  %1 = stablehlo.add %0, %c : tensor<64x32xf32>
  // CHECK: stablehlo.add {{.*}}, %arg3 {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {}]>, #dtensor.layout<@mesh, [{"x"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]}
  %2 = stablehlo.add %1, %d : tensor<64x32xf32>
  return %2 : tensor<64x32xf32>
}
