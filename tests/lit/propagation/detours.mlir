// RUN: dtensor-opt %s --mesh x=2,y=4 --split-input-file --dtensor-import --dtensor-propagate | filecheck %s

// An op that needs a split dimension whole: the axis moves to another one, and stays there.
// CHECK-LABEL: func.func @a_sort_moves_the_axis
// CHECK-SAME: -> (tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>})
func.func @a_sort_moves_the_axis(
    %a: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}) -> tensor<64x48xf32> {
  // CHECK: stablehlo.negate {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{"y"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{"y"}, {}]>]}
  %0 = stablehlo.negate %a : tensor<64x48xf32>
  // CHECK: dtensor.operands = [#dtensor.layout<@mesh, [{}, {"y"}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {"y"}]>]
  %1 = "stablehlo.sort"(%0) <{dimension = 0 : i64}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %less = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  }) : (tensor<64x48xf32>) -> tensor<64x48xf32>
  // CHECK: stablehlo.abs {{.*}} {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}, {"y"}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {"y"}]>]}
  %2 = stablehlo.abs %1 : tensor<64x48xf32>
  return %2 : tensor<64x48xf32>
}

// -----

// Of the dimensions left, the longest that no other axis splits.
// CHECK-LABEL: func.func @a_dimension_that_is_free
// CHECK-SAME: -> (tensor<64x48x24xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {"y"}]>})
func.func @a_dimension_that_is_free(
    %a: tensor<64x48x24xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {"x"}, {}]>}) -> tensor<64x48x24xf32> {
  // CHECK: {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}, {"x"}, {"y"}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}, {"y"}]>]}
  %0 = "stablehlo.sort"(%a) <{dimension = 0 : i64}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %less = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  }) : (tensor<64x48x24xf32>) -> tensor<64x48x24xf32>
  return %0 : tensor<64x48x24xf32>
}

// -----

// Where all others are split, behind the axis that is there.
// CHECK-LABEL: func.func @behind_another_axis
// CHECK-SAME: -> (tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x", "y"}]>})
func.func @behind_another_axis(
    %a: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {"x"}]>}) -> tensor<64x48xf32> {
  %0 = "stablehlo.sort"(%a) <{dimension = 0 : i64}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %less = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  }) : (tensor<64x48xf32>) -> tensor<64x48xf32>
  return %0 : tensor<64x48xf32>
}

// -----

// One detour leads to the next: a transform of every dimension, each with its axis elsewhere.
// CHECK-LABEL: func.func @one_after_the_other
// CHECK-SAME: -> (tensor<48x64xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>})
func.func @one_after_the_other(
    %a: tensor<48x64xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}) -> tensor<48x64xf32> {
  // CHECK: {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}, {"y"}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {"y"}]>]}
  %0 = "stablehlo.sort"(%a) <{dimension = 0 : i64}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %less = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  }) : (tensor<48x64xf32>) -> tensor<48x64xf32>
  // CHECK: {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{"y"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{"y"}, {}]>]}
  %1 = "stablehlo.sort"(%0) <{dimension = 1 : i64}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %less = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  }) : (tensor<48x64xf32>) -> tensor<48x64xf32>
  return %1 : tensor<48x64xf32>
}

// -----

// A result that is whole is gathered once, before or after: no detour.
// CHECK-LABEL: func.func @a_result_that_is_whole
func.func @a_result_that_is_whole(
    %a: tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>})
    -> (tensor<64x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  // CHECK: {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]}
  %0 = "stablehlo.sort"(%a) <{dimension = 0 : i64}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %less = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  }) : (tensor<64x48xf32>) -> tensor<64x48xf32>
  return %0 : tensor<64x48xf32>
}

// -----

// However few bytes there are: either way is one collective.
// CHECK-LABEL: func.func @few_bytes
// CHECK-SAME: -> (tensor<8x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>})
func.func @few_bytes(
    %a: tensor<8x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}) -> tensor<8x4xf32> {
  %0 = "stablehlo.sort"(%a) <{dimension = 0 : i64}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %less = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  }) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

// Blocks stay inside of a program: the result of joining two has the axis ahead of them.
// CHECK-LABEL: func.func @blocks_stay_inside
// CHECK-SAME: -> (tensor<128x47xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>})
func.func @blocks_stay_inside(
    %a: tensor<64x47xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>},
    %b: tensor<64x47xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}) -> tensor<128x47xf32> {
  // CHECK: stablehlo.concatenate {{.*}} dtensor.results = [#dtensor.layout<@mesh, [{2, "y"}, {}]>]
  %0 = stablehlo.concatenate %a, %b, dim = 0 : (tensor<64x47xf32>, tensor<64x47xf32>) -> tensor<128x47xf32>
  return %0 : tensor<128x47xf32>
}

// -----

// Nothing else to split: the only dimension is gathered.
// CHECK-LABEL: func.func @no_other_dimension
func.func @no_other_dimension(
    %a: tensor<4096xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>}) -> tensor<4096xf32> {
  // CHECK: {dtensor.algorithm = "local", dtensor.operands = [#dtensor.layout<@mesh, [{}]>]
  %0 = "stablehlo.sort"(%a) <{dimension = 0 : i64}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %less = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  }) : (tensor<4096xf32>) -> tensor<4096xf32>
  return %0 : tensor<4096xf32>
}

// -----

// Blocks that divide among the devices come together in one all_to_all, for less than a gather.
// CHECK-LABEL: func.func @blocks_that_divide
// CHECK-SAME: -> (tensor<4608xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>})
func.func @blocks_that_divide(
    %a: tensor<96x48xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}) -> tensor<4608xf32> {
  // CHECK: stablehlo.reshape {{.*}} dtensor.results = [#dtensor.layout<@mesh, [{96, "x"}]>]
  %0 = stablehlo.reshape %a : (tensor<96x48xf32>) -> tensor<4608xf32>
  return %0 : tensor<4608xf32>
}

// -----

// Ahead of blocks, but behind the axis that is ahead of them.
// CHECK-LABEL: func.func @behind_a_later_axis
// CHECK-SAME: -> (tensor<12288x1xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y", "x"}, {}]>})
func.func @behind_a_later_axis(
    %a: tensor<128x96xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {"x"}]>}) -> tensor<12288x1xf32> {
  %0 = stablehlo.reshape %a : (tensor<128x96xf32>) -> tensor<12288x1xf32>
  return %0 : tensor<12288x1xf32>
}

// -----

// What no detour serves is gathered; behind it an axis comes back by slices, which cost no bytes.
// CHECK-LABEL: func.func @blocks_behind_a_detour
// CHECK-SAME: -> (tensor<128x95xcomplex<f32>> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}
// CHECK: stablehlo.fft {{.*}} dtensor.operands = [#dtensor.layout<@mesh, [{}, {}]>]
func.func @blocks_behind_a_detour(
    %a: tensor<128x96xcomplex<f32>> {dtensor.layout = #dtensor.layout<@mesh, [{"y", "x"}, {}]>}) -> (tensor<128x95xcomplex<f32>>, tensor<256x95xcomplex<f32>>) {
  %z = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>
  %0 = stablehlo.fft %a, type = FFT, length = [128, 96] : (tensor<128x96xcomplex<f32>>) -> tensor<128x96xcomplex<f32>>
  %1 = stablehlo.slice %0 [0:128, 1:96] : (tensor<128x96xcomplex<f32>>) -> tensor<128x95xcomplex<f32>>
  %2 = stablehlo.pad %1, %z, low = [0, 0], high = [128, 0], interior = [0, 0] : (tensor<128x95xcomplex<f32>>, tensor<complex<f32>>) -> tensor<256x95xcomplex<f32>>
  return %1, %2 : tensor<128x95xcomplex<f32>>, tensor<256x95xcomplex<f32>>
}
