// RUN: dtensor-opt %s --split-input-file --mesh x=2,y=4 -p dtensor-import,dtensor-pad-uneven | filecheck %s

// A constraint that does not divide makes its dimension longer, and all that is computed along it.

// CHECK-LABEL: func.func @elements(%arg0: tensor<6x3xf32>) -> (tensor<8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {?}]>})
func.func @elements(%a: tensor<6x3xf32>) -> tensor<6x3xf32> {
  // CHECK: %[[LONG:.*]] = stablehlo.pad %arg0, %{{.*}}, low = [0, 0], high = [2, 0]
  // CHECK: %[[SPLIT:.*]] = "dtensor.relayout"(%[[LONG]]) {{.*}} : (tensor<8x3xf32>) -> tensor<8x3xf32>
  // CHECK: %[[ONE:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<8x3xf32>
  // CHECK: %[[SUM:.*]] = stablehlo.add %[[SPLIT]], %[[ONE]] : tensor<8x3xf32>
  // CHECK: return %[[SUM]]
  %0 = "dtensor.relayout"(%a) {layout = #dtensor.layout<@mesh, [{"y"}, {?}]>} : (tensor<6x3xf32>) -> tensor<6x3xf32>
  %one = stablehlo.constant dense<1.0> : tensor<6x3xf32>
  %1 = stablehlo.add %0, %one : tensor<6x3xf32>
  return %1 : tensor<6x3xf32>
}

// -----

// An argument with an uneven layout comes padded; a reduction reads the identity beyond the end.

// CHECK-LABEL: func.func @sum(%arg0: tensor<8x3xf32> {dtensor.layout = {{.*}}[{"y"}, {}]>}) -> tensor<3xf32>
func.func @sum(%a: tensor<6x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}) -> tensor<3xf32> {
  // CHECK: %[[INDEX:.*]] = stablehlo.iota dim = 0 : tensor<8xi32>
  // CHECK: %[[END:.*]] = stablehlo.constant dense<6> : tensor<8xi32>
  // CHECK: %[[MASK:.*]] = stablehlo.compare LT, %[[INDEX]], %[[END]]
  // CHECK: %[[SPREAD:.*]] = stablehlo.broadcast_in_dim %[[MASK]], dims = [0]
  // CHECK: %[[KEPT:.*]] = stablehlo.select %[[SPREAD]], %arg0, %{{.*}} : tensor<8x3xi1>, tensor<8x3xf32>
  // CHECK: stablehlo.reduce(%[[KEPT]] init: %{{.*}}) applies stablehlo.add across dimensions = [0] : (tensor<8x3xf32>, tensor<f32>) -> tensor<3xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<6x3xf32>, tensor<f32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// Both sides of a contraction are masked: zero times NaN is NaN.

// CHECK-LABEL: func.func @contraction
func.func @contraction(%a: tensor<2x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>}, %b: tensor<6x3xf32>) -> tensor<2x3xf32> {
  // CHECK-DAG: %[[LEFT:.*]] = stablehlo.select %{{.*}}, %arg0, %{{.*}} : tensor<2x8xi1>, tensor<2x8xf32>
  // CHECK-DAG: %[[RIGHT:.*]] = stablehlo.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<8x3xi1>, tensor<8x3xf32>
  // CHECK: stablehlo.dot_general %[[LEFT]], %[[RIGHT]]
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x6xf32>, tensor<6x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

// A longer major dimension makes what it is regrouped into longer in proportion.

// CHECK-LABEL: func.func @heads(%arg0: tensor<8x5xf32> {{.*}}) -> (tensor<32xf32>
func.func @heads(%a: tensor<6x5xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}) -> (tensor<30xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>}) {
  // CHECK: %[[FLAT:.*]] = stablehlo.reshape %arg0 : (tensor<8x5xf32>) -> tensor<40xf32>
  // CHECK: stablehlo.slice %[[FLAT]] [0:32]
  %0 = stablehlo.reshape %a : (tensor<6x5xf32>) -> tensor<30xf32>
  return %0 : tensor<30xf32>
}

// -----

// No index leads beyond the true end of what is longer.

// CHECK-LABEL: func.func @lookup
func.func @lookup(%a: tensor<6x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}, %i: tensor<2x1xi32>) -> tensor<2x3xf32> {
  // CHECK: %[[LAST:.*]] = stablehlo.constant dense<5> : tensor<1xi32>
  // CHECK: %[[LASTS:.*]] = stablehlo.broadcast_in_dim %[[LAST]], dims = [1]
  // CHECK: %[[WITHIN:.*]] = stablehlo.minimum %arg1, %[[LASTS]]
  // CHECK: "stablehlo.gather"(%arg0, %[[WITHIN]])
  %0 = "stablehlo.gather"(%a, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>, indices_are_sorted = false} : (tensor<6x3xf32>, tensor<2x1xi32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

// A loop carries what is longer as it is.

// CHECK-LABEL: func.func @loop
func.func @loop(%a: tensor<6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>}, %n: tensor<i32>) -> tensor<6xf32> {
  // CHECK: stablehlo.while(%{{.*}} = %arg0, %{{.*}} = %arg1) : tensor<8xf32>, tensor<i32>
  %r:2 = stablehlo.while(%c = %a, %i = %n) : tensor<6xf32>, tensor<i32>
    cond {
      %z = stablehlo.constant dense<0> : tensor<i32>
      %p = stablehlo.compare GT, %i, %z : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %d = stablehlo.tanh %c : tensor<6xf32>
      %j = stablehlo.subtract %i, %one : tensor<i32>
      stablehlo.return %d, %j : tensor<6xf32>, tensor<i32>
    }
  return %r#0 : tensor<6xf32>
}

// -----

// What does not know of padding reads the true size, as the transform of a prime length.

// CHECK-LABEL: func.func @prime
func.func @prime(%a: tensor<7xcomplex<f32>> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>}) -> (tensor<7xcomplex<f32>> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}) {
  // CHECK: %[[TRUE:.*]] = stablehlo.slice %arg0 [0:7]
  // CHECK: stablehlo.fft %[[TRUE]]
  %0 = stablehlo.fft %a, type = FFT, length = [7] : (tensor<7xcomplex<f32>>) -> tensor<7xcomplex<f32>>
  return %0 : tensor<7xcomplex<f32>>
}

// -----

// Another transform is told how long its rows are.

// CHECK-LABEL: func.func @transformed
func.func @transformed(%a: tensor<6xcomplex<f32>> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>}) -> (tensor<6xcomplex<f32>> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}) {
  // CHECK: %[[LONG:.*]] = "dtensor.fft"(%arg0) {fft_length = array<i64: 6>, fft_type = #stablehlo<fft_type FFT>} : (tensor<8xcomplex<f32>>) -> tensor<8xcomplex<f32>>
  // CHECK: stablehlo.slice %[[LONG]] [0:6]
  %0 = stablehlo.fft %a, type = FFT, length = [6] : (tensor<6xcomplex<f32>>) -> tensor<6xcomplex<f32>>
  return %0 : tensor<6xcomplex<f32>>
}

// -----

// The half of a transform of real numbers that is kept is split as they are, though not given so. It
// is as long as a result of 9 elements over 4 devices: then nothing of it moves to another one.

// CHECK-LABEL: func.func @halved
func.func @halved(%a: tensor<16xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>}) -> tensor<9xf32> {
  // CHECK: %[[HALF:.*]] = "dtensor.fft"(%arg0) {{.*}}fft_length = array<i64: 16>, fft_type = #stablehlo<fft_type RFFT>} : (tensor<16xf32>) -> tensor<12xcomplex<f32>>
  // CHECK: stablehlo.real %[[HALF]] : (tensor<12xcomplex<f32>>) -> tensor<12xf32>
  %0 = stablehlo.fft %a, type = RFFT, length = [16] : (tensor<16xf32>) -> tensor<9xcomplex<f32>>
  %1 = stablehlo.real %0 : (tensor<9xcomplex<f32>>) -> tensor<9xf32>
  return %1 : tensor<9xf32>
}

// -----

// A sort is told where its rows end.

// CHECK-LABEL: func.func @sorted
func.func @sorted(%a: tensor<6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>}) -> (tensor<6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}) {
  // CHECK: %[[SORTED:.*]] = "stablehlo.sort"(%arg0)
  // CHECK: {dtensor.size = 6 : i64} : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK: stablehlo.slice %[[SORTED]] [0:6]
  %0 = "stablehlo.sort"(%a) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %p = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }) : (tensor<6xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

// Layouts that divide leave everything as it is.

// CHECK-LABEL: func.func @even(%arg0: tensor<8x3xf32>
// CHECK-NOT: stablehlo.pad
func.func @even(%a: tensor<8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}) -> tensor<8x3xf32> {
  %0 = stablehlo.tanh %a : tensor<8x3xf32>
  return %0 : tensor<8x3xf32>
}

// -----

// What a slice leaves has the padding of what it is cut of, and more; its elements are moved there.

// CHECK-LABEL: func.func @cut(%arg0: tensor<3x8xf32> {{.*}}) -> (tensor<3x8xf32> {dtensor.layout = {{.*}}[{?}, {"y"}]>})
func.func @cut(%a: tensor<3x7xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>}) -> tensor<3x5xf32> {
  // CHECK: %[[ALL:.*]] = stablehlo.slice %arg0 [0:3, 0:8]
  // CHECK: %[[MOVED:.*]] = "dtensor.splice"(%[[ALL]]) {counts = array<i64: 5, 1, 2>, dim = 1 : i64, {{.*}}sources = array<i64: 0, 0, 0>, starts = array<i64: 2, 7, 0>}
  // CHECK: return %[[MOVED]]
  %0 = stablehlo.slice %a [0:3, 2:7] : (tensor<3x7xf32>) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}

// -----

// The padding of a dimension that is split evenly is cut off where it is.

// CHECK-LABEL: func.func @without_padding(%arg0: tensor<3x8xf32> {{.*}}) -> (tensor<3x8xf32>
func.func @without_padding(%a: tensor<3x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>}) -> tensor<3x7xf32> {
  // CHECK: %[[SAME:.*]] = stablehlo.slice %arg0 [0:3, 0:8]
  // CHECK: return %[[SAME]]
  %0 = stablehlo.slice %a [0:3, 0:7] : (tensor<3x8xf32>) -> tensor<3x7xf32>
  return %0 : tensor<3x7xf32>
}

// -----

// What a pad adds stands in the place of the padding.

// CHECK-LABEL: func.func @padded
func.func @padded(%a: tensor<6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>}, %v: tensor<f32>) -> tensor<7xf32> {
  // CHECK: %[[MASKED:.*]] = stablehlo.select %{{.*}}, %arg0, %{{.*}} : tensor<8xi1>, tensor<8xf32>
  // CHECK: stablehlo.pad %[[MASKED]], %arg1, low = [0], high = [0], interior = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %0 = stablehlo.pad %a, %v, low = [0], high = [1], interior = [0] : (tensor<6xf32>, tensor<f32>) -> tensor<7xf32>
  return %0 : tensor<7xf32>
}

// -----

// A join with few becomes stretches of both.

// CHECK-LABEL: func.func @joined
func.func @joined(%a: tensor<6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>}, %b: tensor<1xf32>) -> tensor<7xf32> {
  // CHECK-NOT: stablehlo.concatenate
  // CHECK: "dtensor.splice"(%arg0, %arg1) {counts = array<i64: 6, 1, 1>, dim = 0 : i64, {{.*}}sources = array<i64: 0, 1, 0>, starts = array<i64: 0, 0, 7>}
  %0 = stablehlo.concatenate %a, %b, dim = 0 : (tensor<6xf32>, tensor<1xf32>) -> tensor<7xf32>
  return %0 : tensor<7xf32>
}

// -----

// Of a reversed dimension the padding comes first, and is moved behind.

// CHECK-LABEL: func.func @reversed
func.func @reversed(%a: tensor<6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>}) -> tensor<6xf32> {
  // CHECK: %[[BACK:.*]] = stablehlo.reverse %arg0, dims = [0] : tensor<8xf32>
  // CHECK: "dtensor.splice"(%[[BACK]]) {counts = array<i64: 6, 2>, dim = 0 : i64, {{.*}}sources = array<i64: 0, 0>, starts = array<i64: 2, 0>}
  %0 = stablehlo.reverse %a, dims = [0] : tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

// Windows of two elements: half as many results, half as long. What they read beyond the end is the
// init value.

// CHECK-LABEL: func.func @windows(%arg0: tensor<8xf32> {{.*}}) -> (tensor<4xf32>
func.func @windows(%a: tensor<7xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>}) -> tensor<4xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  // CHECK: %[[MASKED:.*]] = stablehlo.select %{{.*}}, %arg0, %{{.*}} : tensor<8xi1>, tensor<8xf32>
  // CHECK: "stablehlo.reduce_window"(%[[MASKED]], %{{.*}}) <{padding = dense<0> : tensor<1x2xi64>
  // CHECK: (tensor<8xf32>, tensor<f32>) -> tensor<4xf32>
  %0 = "stablehlo.reduce_window"(%a, %low) <{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>, padding = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %m = stablehlo.maximum %x, %y : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<7xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A scan from the start never meets what is behind the end.

// CHECK-LABEL: func.func @scanned
func.func @scanned(%a: tensor<7xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>}) -> tensor<7xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  // CHECK: "stablehlo.reduce_window"(%arg0, %{{.*}}) <{padding = dense<{{\[}}[7, 0]]> : tensor<1x2xi64>, window_dimensions = array<i64: 8>
  %0 = "stablehlo.reduce_window"(%a, %zero) <{window_dimensions = array<i64: 7>, padding = dense<[[6, 0]]> : tensor<1x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %m = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<7xf32>, tensor<f32>) -> tensor<7xf32>
  return %0 : tensor<7xf32>
}

// -----

// For a scan from the last element on it goes ahead of all, and back behind them.

// CHECK-LABEL: func.func @backward
func.func @backward(%a: tensor<7xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>}) -> tensor<7xf32> {
  // CHECK: %[[AHEAD:.*]] = "dtensor.splice"(%arg0) {counts = array<i64: 1, 7>, dim = 0 : i64, sources = array<i64: 0, 0>, starts = array<i64: 7, 0>}
  // CHECK: %[[SCAN:.*]] = "dtensor.scan"(%[[AHEAD]])
  // CHECK: "dtensor.splice"(%[[SCAN]]) {counts = array<i64: 7, 1>, dim = 0 : i64, sources = array<i64: 0, 0>, starts = array<i64: 1, 0>}
  %0 = "dtensor.scan"(%a) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %m = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) {dim = 0 : i64, reverse = 1 : i64} : (tensor<7xf32>) -> tensor<7xf32>
  return %0 : tensor<7xf32>
}

// -----

// A row whose largest elements are taken says where it ends.

// CHECK-LABEL: func.func @largest
func.func @largest(%a: tensor<3x7xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>}) -> (tensor<3x2xf32>, tensor<3x2xi32>) {
  // CHECK: chlo.top_k(%arg0, k = 2) {{{.*}}dtensor.size = 7 : i64{{.*}}} : tensor<3x8xf32> -> (tensor<3x2xf32>, tensor<3x2xi32>)
  %values, %places = chlo.top_k(%a, k = 2) : tensor<3x7xf32> -> (tensor<3x2xf32>, tensor<3x2xi32>)
  return %values, %places : tensor<3x2xf32>, tensor<3x2xi32>
}

// -----

// One element of two is not padded to the two devices if nobody asks for it: one would hold nothing.

// CHECK-LABEL: func.func @one_of_two(
// CHECK-SAME: -> tensor<1x3xf32>
func.func @one_of_two(%a: tensor<2x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<1x3xf32> {
  // CHECK: %[[ONE:.*]] = stablehlo.slice %arg0 [0:1, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  // CHECK: return %[[ONE]]
  %0 = stablehlo.slice %a [0:1, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  return %0 : tensor<1x3xf32>
}

// -----

// Where a layout asks for it, it is; what is reversed is one element, and stays in its place.

// CHECK-LABEL: func.func @one_as_asked(
// CHECK-SAME: -> (tensor<2x3xf32>
func.func @one_as_asked(%a: tensor<2x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<1x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // CHECK: %[[KEPT:.*]] = stablehlo.slice %arg0 [0:2, 0:3] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: %[[SAME:.*]] = stablehlo.reverse %[[KEPT]], dims = [] : tensor<2x3xf32>
  // CHECK: return %[[SAME]]
  %0 = stablehlo.slice %a [0:1, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
  %1 = stablehlo.reverse %0, dims = [0] : tensor<1x3xf32>
  return %1 : tensor<1x3xf32>
}

// -----

// Three elements of four leave one device idle, and stay where they are.

// CHECK-LABEL: func.func @three_of_four(
// CHECK-SAME: -> (tensor<4x3xf32>
func.func @three_of_four(%a: tensor<4x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}) -> tensor<3x3xf32> {
  // CHECK: stablehlo.slice %arg0 [0:4, 0:3]
  %0 = stablehlo.slice %a [0:3, 0:3] : (tensor<4x3xf32>) -> tensor<3x3xf32>
  return %0 : tensor<3x3xf32>
}

// -----

// Blocks divide a dimension that grows too: 9 elements are 12 and not 10 where 8 are two blocks, each
// split over x. The result is not laid out in blocks, which would not divide its 9.

// CHECK-LABEL: func.func @blocks(
// CHECK-SAME: -> (tensor<9x3xf32>
func.func @blocks(%a: tensor<8x3xf32>, %f: tensor<f32>) -> tensor<9x3xf32> {
  // CHECK: "dtensor.relayout"(%{{.*}}) {{.*}} : (tensor<12x3xf32>) -> tensor<12x3xf32>
  // CHECK: return %{{.*}} : tensor<9x3xf32>
  %0 = "dtensor.relayout"(%a) {layout = #dtensor.layout<@mesh, [{2, "x"}, {}]>} : (tensor<8x3xf32>) -> tensor<8x3xf32>
  %1 = stablehlo.pad %0, %f, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<8x3xf32>, tensor<f32>) -> tensor<9x3xf32>
  return %1 : tensor<9x3xf32>
}

// -----

// A window is added to scatter nothing. What it reads behind the end is no padding of XLA's, with which the others
// would select other ones of equal elements.
// CHECK-LABEL: func.func @main
// CHECK: "stablehlo.select_and_scatter"
// CHECK-SAME: padding = dense<{{\[\[}}0, 1]]>
// CHECK: dtensor.fill = dense<-0.000000e+00> : tensor<f32>
func.func @main(%a: tensor<6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}, %s: tensor<5xf32>) -> tensor<6xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.select_and_scatter"(%a, %s, %zero) <{window_dimensions = array<i64: 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }, {
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<6xf32>, tensor<5xf32>, tensor<f32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

// A body that has no known identity is told what stands before the end; the init value does.

// CHECK-LABEL: func.func @any_body(%arg0: tensor<8x3xf32>
func.func @any_body(%a: tensor<6x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}, %i: tensor<f32>) -> tensor<3xf32> {
  // CHECK: %[[MASK:.*]] = stablehlo.compare LT, %{{.*}} : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
  // CHECK: %[[VALID:.*]] = stablehlo.broadcast_in_dim %[[MASK]], dims = [0] : (tensor<8xi1>) -> tensor<8x3xi1>
  // CHECK: %[[TRUE:.*]] = stablehlo.constant dense<true> : tensor<i1>
  // CHECK: %[[FOUND:.*]]:2 = stablehlo.reduce(%arg0 init: %arg1), (%[[VALID]] init: %[[TRUE]]) across dimensions = [0]
  // CHECK: return %[[FOUND]]#0 : tensor<3xf32>
  %0 = stablehlo.reduce(%a init: %i) across dimensions = [0] : (tensor<6x3xf32>, tensor<f32>) -> tensor<3xf32>
    reducer(%x: tensor<f32>, %y: tensor<f32>) {
    %2 = stablehlo.multiply %x, %y : tensor<f32>
    %3 = stablehlo.add %2, %y : tensor<f32>
    stablehlo.return %3 : tensor<f32>
  }
  return %0 : tensor<3xf32>
}

// -----

// What windows leave of a split dimension is a result of its own size, though it was longer inside.

// CHECK-LABEL: func.func @shortened(%arg0: tensor<32xf32> {{.*}}) -> (tensor<24xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>})
func.func @shortened(%a: tensor<32xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>}) -> tensor<21xf32> {
  // CHECK: %[[LONG:.*]] = "dtensor.splice"(%{{.*}})
  // CHECK: %[[SUM:.*]] = stablehlo.add %[[LONG]], %{{.*}} : tensor<32xf32>
  // CHECK: %[[RESULT:.*]] = stablehlo.slice %[[SUM]] [0:24]
  // CHECK: return %[[RESULT]]
  %0 = stablehlo.slice %a [11:32] : (tensor<32xf32>) -> tensor<21xf32>
  %1 = stablehlo.slice %a [0:21] : (tensor<32xf32>) -> tensor<21xf32>
  %2 = stablehlo.add %0, %1 : tensor<21xf32>
  return %2 : tensor<21xf32>
}

// -----

// The gradient of a kernel of an array that is padded with its own elements, 5 of 6: its end is said,
// for the windows of the results too, and its kernel is zero behind it. The first result, and the
// second where an element stands around the end, read something there.

// CHECK-LABEL: func.func @gradient_of_a_kernel
// CHECK: %[[DELTA:.*]] = stablehlo.select %{{.*}} : tensor<6x4x7xi1>, tensor<6x4x7xf32>
// CHECK-NOT: select
// CHECK: stablehlo.convolution(%arg0, %[[DELTA]]) {{.*}}{pad = {{\[\[}}1, 1]]} {{.*}}dtensor.ends = ["reflect of 5 for 5"], {{.*}}dtensor.steps = array<i64: 5, 2>
func.func @gradient_of_a_kernel(%a: tensor<4x5x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}, {}]>}, %d: tensor<5x4x7xf32>) -> tensor<3x3x7xf32> {
  %0 = stablehlo.convolution(%a, %d) dim_numbers = [f, 0, b]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, dtensor.ends = ["reflect"]} : (tensor<4x5x3xf32>, tensor<5x4x7xf32>) -> tensor<3x3x7xf32>
  return %0 : tensor<3x3x7xf32>
}

// -----

// A splice reads the first element of an operand of another length, which may be longer; what gives no
// element after its end stays with the result.

// CHECK-LABEL: func.func @of_another_length
// CHECK: %[[ABS:.*]] = stablehlo.abs %arg1 : tensor<6x4xf32>
// CHECK: "dtensor.splice"(%arg0, %[[ABS]]) {counts = array<i64: 8, 2>, dim = 0 : i64, {{.*}}sources = array<i64: 0, 1>, starts = array<i64: 1, 3>} : (tensor<10x4xf32>, tensor<6x4xf32>) -> tensor<10x4xf32>
func.func @of_another_length(%a: tensor<10x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %b: tensor<5x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<10x4xf32> {
  %0 = stablehlo.abs %b : tensor<5x4xf32>
  %1 = "dtensor.splice"(%a, %0) {counts = array<i64: 8, 2>, dim = 0 : i64, sources = array<i64: 0, 1>, starts = array<i64: 1, 3>} : (tensor<10x4xf32>, tensor<5x4xf32>) -> tensor<10x4xf32>
  return %1 : tensor<10x4xf32>
}
