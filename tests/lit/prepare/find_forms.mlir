// RUN: dtensor-opt %s --split-input-file --dtensor-find-forms | filecheck %s

// An operand of a sort that counts the places decides between equal elements.

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<3x300xf32>) -> (tensor<3x300xi32>, tensor<3x300xi32>, tensor<3x300xi8>) {
  %place = stablehlo.iota dim = 1 : tensor<3x300xi32>
  %row = stablehlo.iota dim = 0 : tensor<3x300xi32>
  %wrapped = stablehlo.iota dim = 1 : tensor<3x300xi8>
  // CHECK: "stablehlo.sort"(%arg0, %{{.*}}) <{dimension = 1 : i64, is_stable = true}>
  // CHECK: {dtensor.places = 1 : i64} : (tensor<3x300xf32>, tensor<3x300xi32>)
  %0:2 = "stablehlo.sort"(%a, %place) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>, %r: tensor<i32>, %s: tensor<i32>):
    %1 = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<3x300xf32>, tensor<3x300xi32>) -> (tensor<3x300xf32>, tensor<3x300xi32>)
  // Rows are all alike, and eight bits do not count to 300.
  // CHECK-NOT: dtensor.places
  %2:2 = "stablehlo.sort"(%a, %row) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>, %r: tensor<i32>, %s: tensor<i32>):
    %1 = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<3x300xf32>, tensor<3x300xi32>) -> (tensor<3x300xf32>, tensor<3x300xi32>)
  %3:2 = "stablehlo.sort"(%a, %wrapped) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>, %r: tensor<i8>, %s: tensor<i8>):
    %1 = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<3x300xf32>, tensor<3x300xi8>) -> (tensor<3x300xf32>, tensor<3x300xi8>)
  return %0#1, %2#1, %3#1 : tensor<3x300xi32>, tensor<3x300xi32>, tensor<3x300xi8>
}

// -----

// A loop that halves the intervals of many queries in a table.

// CHECK-LABEL: func.func @main
// CHECK-NOT: stablehlo.while
// CHECK: %[[FOUND:.*]] = "dtensor.search"(%arg0, %arg1) ({
// CHECK: ^bb0(%[[Q:.*]]: tensor<f32>, %[[T:.*]]: tensor<f32>):
// CHECK: %[[DOWN:.*]] = stablehlo.compare LE, %[[Q]], %[[T]]
// CHECK: stablehlo.return %[[DOWN]]
// CHECK: }) {count = 5 : i64} : (tensor<5xf32>, tensor<3xf32>) -> tensor<3xui32>
// CHECK: return %[[FOUND]]
func.func @main(%t: tensor<5xf32>, %q: tensor<3xf32>) -> tensor<3xui32> {
  %zero = stablehlo.constant dense<0> : tensor<3xui32>
  %count = stablehlo.constant dense<5> : tensor<3xui32>
  %two = stablehlo.constant dense<2> : tensor<3xui32>
  %first = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<3> : tensor<i32>
  %0:4 = stablehlo.while(%q_ = %q, %i = %first, %low = %zero, %high = %count) : tensor<3xf32>, tensor<i32>, tensor<3xui32>, tensor<3xui32>
  cond {
    %1 = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %1 = stablehlo.subtract %high, %low : tensor<3xui32>
    %2 = stablehlo.divide %1, %two : tensor<3xui32>
    %3 = stablehlo.add %low, %2 : tensor<3xui32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<3xui32>) -> tensor<3x1xui32>
    %5 = "stablehlo.gather"(%t, %4) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<5xf32>, tensor<3x1xui32>) -> tensor<3xf32>
    %6 = stablehlo.compare LE, %q_, %5 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %7 = stablehlo.select %6, %low, %3 : tensor<3xi1>, tensor<3xui32>
    %8 = stablehlo.select %6, %3, %high : tensor<3xi1>, tensor<3xui32>
    %9 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %q_, %9, %7, %8 : tensor<3xf32>, tensor<i32>, tensor<3xui32>, tensor<3xui32>
  }
  return %0#3 : tensor<3xui32>
}

// -----

// Two turns do not bring every search to its end.

// CHECK-LABEL: func.func @main
// CHECK: stablehlo.while
func.func @main(%t: tensor<5xf32>, %q: tensor<3xf32>) -> tensor<3xui32> {
  %zero = stablehlo.constant dense<0> : tensor<3xui32>
  %count = stablehlo.constant dense<5> : tensor<3xui32>
  %two = stablehlo.constant dense<2> : tensor<3xui32>
  %first = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<2> : tensor<i32>
  %0:4 = stablehlo.while(%q_ = %q, %i = %first, %low = %zero, %high = %count) : tensor<3xf32>, tensor<i32>, tensor<3xui32>, tensor<3xui32>
  cond {
    %1 = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %1 = stablehlo.subtract %high, %low : tensor<3xui32>
    %2 = stablehlo.divide %1, %two : tensor<3xui32>
    %3 = stablehlo.add %low, %2 : tensor<3xui32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<3xui32>) -> tensor<3x1xui32>
    %5 = "stablehlo.gather"(%t, %4) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<5xf32>, tensor<3x1xui32>) -> tensor<3xf32>
    %6 = stablehlo.compare LE, %q_, %5 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %7 = stablehlo.select %6, %low, %3 : tensor<3xi1>, tensor<3xui32>
    %8 = stablehlo.select %6, %3, %high : tensor<3xi1>, tensor<3xui32>
    %9 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %q_, %9, %7, %8 : tensor<3xf32>, tensor<i32>, tensor<3xui32>, tensor<3xui32>
  }
  return %0#3 : tensor<3xui32>
}

// -----

// The lower end is not what a search gives.

// CHECK-LABEL: func.func @main
// CHECK: stablehlo.while
func.func @main(%t: tensor<5xf32>, %q: tensor<3xf32>) -> tensor<3xui32> {
  %zero = stablehlo.constant dense<0> : tensor<3xui32>
  %count = stablehlo.constant dense<5> : tensor<3xui32>
  %two = stablehlo.constant dense<2> : tensor<3xui32>
  %first = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %trips = stablehlo.constant dense<3> : tensor<i32>
  %0:4 = stablehlo.while(%q_ = %q, %i = %first, %low = %zero, %high = %count) : tensor<3xf32>, tensor<i32>, tensor<3xui32>, tensor<3xui32>
  cond {
    %1 = stablehlo.compare LT, %i, %trips : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %1 = stablehlo.subtract %high, %low : tensor<3xui32>
    %2 = stablehlo.divide %1, %two : tensor<3xui32>
    %3 = stablehlo.add %low, %2 : tensor<3xui32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<3xui32>) -> tensor<3x1xui32>
    %5 = "stablehlo.gather"(%t, %4) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<5xf32>, tensor<3x1xui32>) -> tensor<3xf32>
    %6 = stablehlo.compare LE, %q_, %5 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %7 = stablehlo.select %6, %low, %3 : tensor<3xi1>, tensor<3xui32>
    %8 = stablehlo.select %6, %3, %high : tensor<3xi1>, tensor<3xui32>
    %9 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %q_, %9, %7, %8 : tensor<3xf32>, tensor<i32>, tensor<3xui32>, tensor<3xui32>
  }
  return %0#2 : tensor<3xui32>
}

// -----

// A sort of which three places are read, one of them computed.

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<3x40xi32>, %i: tensor<1xi32>, %b: tensor<3x40xi32>, %c: tensor<3x40xi32>) -> (tensor<3x2xi32>, tensor<3xi32>, tensor<3x40xi32>, tensor<3x20xi32>) {
  // CHECK: %[[KNOWN:.*]] = stablehlo.constant dense<[7, 8]> : tensor<2xi32>
  // CHECK: %[[PLACES:.*]] = stablehlo.concatenate %[[KNOWN]], %arg1, dim = 0
  // CHECK: %[[FOUND:.*]] = "dtensor.ranked"(%arg0, %[[PLACES]]) ({
  // CHECK: stablehlo.compare LT
  // CHECK: }) {dim = 1 : i64} : (tensor<3x40xi32>, tensor<3xi32>) -> tensor<3x3xi32>
  // CHECK: %[[FIRST:.*]] = stablehlo.slice %[[FOUND]] [0:3, 0:2]
  // CHECK: %[[THIRD:.*]] = stablehlo.constant dense<2> : tensor<1xi32>
  // CHECK: "stablehlo.gather"(%[[FOUND]], %[[THIRD]])
  %0 = "stablehlo.sort"(%a) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<i32>, %q: tensor<i32>):
    %9 = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %9 : tensor<i1>
  }) : (tensor<3x40xi32>) -> tensor<3x40xi32>
  %1 = stablehlo.slice %0 [0:3, 7:9] : (tensor<3x40xi32>) -> tensor<3x2xi32>
  %2 = "stablehlo.gather"(%0, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1]>, indices_are_sorted = false, slice_sizes = array<i64: 3, 1>}> : (tensor<3x40xi32>, tensor<1xi32>) -> tensor<3xi32>
  // One of whose whole result something is computed, and one of which half is read, stay sorts.
  // CHECK: "stablehlo.sort"(%arg2)
  // CHECK: "stablehlo.sort"(%arg3)
  %3 = "stablehlo.sort"(%b) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<i32>, %q: tensor<i32>):
    %9 = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %9 : tensor<i1>
  }) : (tensor<3x40xi32>) -> tensor<3x40xi32>
  %4 = "stablehlo.sort"(%c) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<i32>, %q: tensor<i32>):
    %9 = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %9 : tensor<i1>
  }) : (tensor<3x40xi32>) -> tensor<3x40xi32>
  %5 = stablehlo.slice %4 [0:3, 0:20] : (tensor<3x40xi32>) -> tensor<3x20xi32>
  return %1, %2, %3, %5 : tensor<3x2xi32>, tensor<3xi32>, tensor<3x40xi32>, tensor<3x20xi32>
}

// -----

// The calls that a QR of a tall matrix is, and the mask of R.

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<6x2xf32>, %b: tensor<6x2xf32>) -> (tensor<6x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<2x2xf32>
  %minus = stablehlo.constant dense<-1> : tensor<2x2xi32>
  %row = stablehlo.iota dim = 0 : tensor<2x2xi32>
  %column = stablehlo.iota dim = 1 : tensor<2x2xi32>
  %before = stablehlo.add %row, %minus : tensor<2x2xi32>
  %below = stablehlo.compare GE, %before, %column : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi1>
  // CHECK: %[[QR:.*]]:2 = "dtensor.qr"(%arg0) {factor = {call_target_name = "Qr"}, product = {call_target_name = "ProductOfElementaryHouseholderReflectors"}} : (tensor<6x2xf32>) -> (tensor<6x2xf32>, tensor<2x2xf32>)
  %0:2 = stablehlo.custom_call @Qr(%a) : (tensor<6x2xf32>) -> (tensor<6x2xf32>, tensor<2xf32>)
  %1 = stablehlo.custom_call @ProductOfElementaryHouseholderReflectors(%0#0, %0#1) : (tensor<6x2xf32>, tensor<2xf32>) -> tensor<6x2xf32>
  %2 = stablehlo.slice %0#0 [0:2, 0:2] : (tensor<6x2xf32>) -> tensor<2x2xf32>
  %3 = stablehlo.select %below, %zero, %2 : tensor<2x2xi1>, tensor<2x2xf32>
  // Where the reflectors themselves are read, the calls stay.
  // CHECK: stablehlo.custom_call @Qr(%arg1)
  // CHECK: %[[TOP:.*]] = stablehlo.slice
  %4:2 = stablehlo.custom_call @Qr(%b) : (tensor<6x2xf32>) -> (tensor<6x2xf32>, tensor<2xf32>)
  %5 = stablehlo.custom_call @ProductOfElementaryHouseholderReflectors(%4#0, %4#1) : (tensor<6x2xf32>, tensor<2xf32>) -> tensor<6x2xf32>
  %6 = stablehlo.slice %4#0 [0:2, 0:2] : (tensor<6x2xf32>) -> tensor<2x2xf32>
  // CHECK: return %[[QR]]#0, %[[QR]]#1, %[[TOP]]
  return %1, %3, %6 : tensor<6x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// Those of a batch, of complex numbers.

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<3x6x2xcomplex<f32>>) -> (tensor<3x6x2xcomplex<f32>>, tensor<3x2x2xcomplex<f32>>) {
  %zero = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>
  %zeros = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<complex<f32>>) -> tensor<3x2x2xcomplex<f32>>
  %minus = stablehlo.constant dense<-1> : tensor<2x2xi32>
  %row = stablehlo.iota dim = 0 : tensor<2x2xi32>
  %column = stablehlo.iota dim = 1 : tensor<2x2xi32>
  %before = stablehlo.add %row, %minus : tensor<2x2xi32>
  %below = stablehlo.compare GE, %before, %column : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi1>
  %mask = stablehlo.broadcast_in_dim %below, dims = [1, 2] : (tensor<2x2xi1>) -> tensor<3x2x2xi1>
  // CHECK: %[[QR:.*]]:2 = "dtensor.qr"(%arg0) {{.*}} : (tensor<3x6x2xcomplex<f32>>) -> (tensor<3x6x2xcomplex<f32>>, tensor<3x2x2xcomplex<f32>>)
  // CHECK: return %[[QR]]#0, %[[QR]]#1
  %0:2 = stablehlo.custom_call @lapack_cgeqrf_ffi(%a) : (tensor<3x6x2xcomplex<f32>>) -> (tensor<3x6x2xcomplex<f32>>, tensor<3x2xcomplex<f32>>)
  %1 = stablehlo.custom_call @lapack_cungqr_ffi(%0#0, %0#1) : (tensor<3x6x2xcomplex<f32>>, tensor<3x2xcomplex<f32>>) -> tensor<3x6x2xcomplex<f32>>
  %2 = stablehlo.slice %0#0 [0:3, 0:2, 0:2] : (tensor<3x6x2xcomplex<f32>>) -> tensor<3x2x2xcomplex<f32>>
  %3 = stablehlo.select %mask, %zeros, %2 : tensor<3x2x2xi1>, tensor<3x2x2xcomplex<f32>>
  return %1, %3 : tensor<3x6x2xcomplex<f32>>, tensor<3x2x2xcomplex<f32>>
}

// -----

// What is computed of a sort element by element and added up does not ask for its order.

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<40xi32>, %b: tensor<40xi32>) -> (tensor<1xi32>, tensor<i32>, tensor<1xi32>, tensor<i32>) {
  // CHECK: %[[TEST:.*]] = stablehlo.compare NE, %arg0, %arg0
  // CHECK: %[[ONES:.*]] = stablehlo.convert %[[TEST]]
  // CHECK: stablehlo.reduce(%[[ONES]]
  // CHECK: "dtensor.ranked"(%arg0
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0 = "stablehlo.sort"(%a) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<i32>, %q: tensor<i32>):
    %9 = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %9 : tensor<i1>
  }) : (tensor<40xi32>) -> tensor<40xi32>
  %1 = stablehlo.compare NE, %0, %0 : (tensor<40xi32>, tensor<40xi32>) -> tensor<40xi1>
  %2 = stablehlo.convert %1 : (tensor<40xi1>) -> tensor<40xi32>
  %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<40xi32>, tensor<i32>) -> tensor<i32>
  %4 = stablehlo.slice %0 [7:8] : (tensor<40xi32>) -> tensor<1xi32>
  // What is computed of other elements at the same places does.
  // CHECK: "stablehlo.sort"(%arg1)
  %5 = "stablehlo.sort"(%b) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<i32>, %q: tensor<i32>):
    %9 = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %9 : tensor<i1>
  }) : (tensor<40xi32>) -> tensor<40xi32>
  %6 = stablehlo.multiply %5, %b : tensor<40xi32>
  %7 = stablehlo.reduce(%6 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<40xi32>, tensor<i32>) -> tensor<i32>
  %8 = stablehlo.slice %5 [7:8] : (tensor<40xi32>) -> tensor<1xi32>
  return %4, %3, %8, %7 : tensor<1xi32>, tensor<i32>, tensor<1xi32>, tensor<i32>
}

// -----

// Each column is read at a place of its own, as `jnp.nanmedian` writes it and as
// `jnp.take_along_axis` does; not where the other component does not count the columns.

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<40x3xi32>, %at: tensor<3xi32>, %two: tensor<2x3x1xi32>, %b: tensor<40x3xi32>) -> (tensor<3xi32>, tensor<2x3xi32>, tensor<3xi32>) {
  // CHECK: %[[TWO:.*]] = stablehlo.reshape %arg2 : (tensor<2x3x1xi32>) -> tensor<2x3xi32>
  // CHECK: %[[PLACES:.*]] = stablehlo.concatenate %{{.*}}, %[[TWO]], dim = 0 : (tensor<1x3xi32>, tensor<2x3xi32>) -> tensor<3x3xi32>
  // CHECK: %[[FOUND:.*]] = "dtensor.ranked"(%arg0, %[[PLACES]]) ({
  // CHECK: }) {dim = 0 : i64} : (tensor<40x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi32>
  %0 = "stablehlo.sort"(%a) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<i32>, %q: tensor<i32>):
    %9 = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %9 : tensor<i1>
  }) : (tensor<40x3xi32>) -> tensor<40x3xi32>
  %columns = stablehlo.constant dense<[[0], [1], [2]]> : tensor<3x1xi32>
  %1 = stablehlo.reshape %at : (tensor<3xi32>) -> tensor<3x1xi32>
  %2 = stablehlo.concatenate %1, %columns, dim = 1 : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x2xi32>
  // CHECK: %[[FIRST:.*]] = stablehlo.slice %[[FOUND]] [0:1, 0:3]
  // CHECK: stablehlo.reshape %[[FIRST]] : (tensor<1x3xi32>) -> tensor<3xi32>
  %3 = "stablehlo.gather"(%0, %2) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}> : (tensor<40x3xi32>, tensor<3x2xi32>) -> tensor<3xi32>
  // CHECK: stablehlo.slice %[[FOUND]] [1:3, 0:3]
  %4 = "stablehlo.gather"(%0, %two) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], operand_batching_dims = [1], start_indices_batching_dims = [1], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1>}> : (tensor<40x3xi32>, tensor<2x3x1xi32>) -> tensor<2x3xi32>
  // CHECK: "stablehlo.sort"(%arg3)
  %5 = "stablehlo.sort"(%b) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<i32>, %q: tensor<i32>):
    %9 = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %9 : tensor<i1>
  }) : (tensor<40x3xi32>) -> tensor<40x3xi32>
  %others = stablehlo.constant dense<[[0], [2], [1]]> : tensor<3x1xi32>
  %6 = stablehlo.concatenate %1, %others, dim = 1 : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x2xi32>
  %7 = "stablehlo.gather"(%5, %6) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}> : (tensor<40x3xi32>, tensor<3x2xi32>) -> tensor<3xi32>
  return %3, %4, %7 : tensor<3xi32>, tensor<2x3xi32>, tensor<3xi32>
}

// -----

// What a gather picks, joined and converted, and multiplied with what may be infinite: one operation.

// CHECK-LABEL: func.func @main
// CHECK: %[[SPLIT:.*]] = stablehlo.reshape %arg2 : (tensor<2x12xf32>) -> tensor<2x3x4xf32>
// CHECK: %[[SUM:.*]] = "dtensor.gather_dot"(%arg0, %arg1, %[[SPLIT]])
// CHECK-SAME: dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [1, 2], rhs_contracting_dimensions = [1, 2]>
// CHECK-SAME: (tensor<9x4x5xbf16>, tensor<2x3xi32>, tensor<2x3x4xf32>) -> tensor<2x5xf32>
// CHECK: %[[SCORES:.*]] = "dtensor.gather_dot"(%arg0, %arg1, %arg3)
// CHECK-SAME: dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [1], lhs_contracting_dimensions = [3], rhs_contracting_dimensions = [0]>
// CHECK-SAME: -> tensor<2x3x4xf32>
// CHECK: %[[JOINED:.*]] = stablehlo.reshape %[[SCORES]] : (tensor<2x3x4xf32>) -> tensor<2x12xf32>
// CHECK: return %[[SUM]], %[[JOINED]]
func.func @main(%t: tensor<9x4x5xbf16>, %i: tensor<2x3xi32>, %w: tensor<2x12xf32>, %q: tensor<5x2xf32>) -> (tensor<2x5xf32>, tensor<2x12xf32>) {
  %0 = "stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2, 3], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 4, 5>}> : (tensor<9x4x5xbf16>, tensor<2x3xi32>) -> tensor<2x3x4x5xbf16>
  %1 = stablehlo.reshape %0 : (tensor<2x3x4x5xbf16>) -> tensor<2x12x5xbf16>
  %2 = stablehlo.convert %1 : (tensor<2x12x5xbf16>) -> tensor<2x12x5xf32>
  %3 = stablehlo.dot_general %w, %2, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<2x12xf32>, tensor<2x12x5xf32>) -> tensor<2x5xf32>
  %4 = stablehlo.dot_general %2, %q, batching_dims = [0] x [1], contracting_dims = [2] x [0] : (tensor<2x12x5xf32>, tensor<5x2xf32>) -> tensor<2x12xf32>
  return %3, %4 : tensor<2x5xf32>, tensor<2x12xf32>
}

// -----

// They stay two where the rows are read otherwise too, where the other factor is finite, where the
// product is larger than the rows, where no shard could tell which part of the sum is its own, and
// where the program computes the indices of constants, so that they may be slices, and where one of
// them says more than StableHLO does.

// CHECK-LABEL: func.func @main
// CHECK-NOT: dtensor.gather_dot
func.func @main(%t: tensor<9x4xf32>, %i: tensor<3xi32>, %w: tensor<3x4xf32>, %k: tensor<4x6xf32>, %v: tensor<3xf32>, %j: tensor<2x3xi32>)
    -> (tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x6xf32>, tensor<2x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>) {
  %0 = "stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<9x4xf32>, tensor<3xi32>) -> tensor<3x4xf32>
  %1 = stablehlo.multiply %0, %w : tensor<3x4xf32>
  %2 = stablehlo.add %0, %w : tensor<3x4xf32>
  %3 = "stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<9x4xf32>, tensor<3xi32>) -> tensor<3x4xf32>
  %4 = stablehlo.tanh %w : tensor<3x4xf32>
  %5 = stablehlo.multiply %3, %4 : tensor<3x4xf32>
  %6 = "stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<9x4xf32>, tensor<3xi32>) -> tensor<3x4xf32>
  %7 = stablehlo.dot_general %6, %k, contracting_dims = [1] x [0] : (tensor<3x4xf32>, tensor<4x6xf32>) -> tensor<3x6xf32>
  %8 = "stablehlo.gather"(%t, %j) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 4>}> : (tensor<9x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
  %9 = stablehlo.dot_general %8, %v, contracting_dims = [1] x [0] : (tensor<2x3x4xf32>, tensor<3xf32>) -> tensor<2x4xf32>
  %counted = stablehlo.iota dim = 0 : tensor<3xi32>
  %even = stablehlo.add %counted, %counted : tensor<3xi32>
  %10 = "stablehlo.gather"(%t, %even) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<9x4xf32>, tensor<3xi32>) -> tensor<3x4xf32>
  %11 = stablehlo.multiply %10, %w : tensor<3x4xf32>
  %12 = "stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<9x4xf32>, tensor<3xi32>) -> tensor<3x4xf32>
  %13 = stablehlo.multiply %12, %w {mhlo.frontend_attributes = {stage = "1"}} : tensor<3x4xf32>
  return %1, %2, %5, %7, %9, %11, %13 : tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x6xf32>, tensor<2x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
}

// -----

// Rows that are not there are NaN: so is what multiplies them where rows are summed, or the product.

// CHECK-LABEL: func.func @main
// CHECK: %[[FILLED:.*]] = stablehlo.select %arg2, %arg3, %{{.*}} : tensor<2x3xi1>, tensor<2x3xf32>
// CHECK: "dtensor.gather_dot"(%arg0, %arg1, %[[FILLED]])
// CHECK: %[[SCORES:.*]] = "dtensor.gather_dot"(%arg0, %arg1, %arg4)
// CHECK: stablehlo.select %arg2, %[[SCORES]], %{{.*}} : tensor<2x3xi1>, tensor<2x3xf32>
// Any other number stays where it is.
// CHECK-NOT: dtensor.gather_dot
func.func @main(%t: tensor<9x4xf32>, %i: tensor<2x3xi32>, %there: tensor<2x3xi1>, %w: tensor<2x3xf32>, %q: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x3xf32>, tensor<2x4xf32>) {
  %mask = stablehlo.broadcast_in_dim %there, dims = [0, 1] : (tensor<2x3xi1>) -> tensor<2x3x4xi1>
  %nan = stablehlo.constant dense<0x7FC00000> : tensor<2x3x4xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<2x3x4xf32>
  %0 = "stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 4>}> : (tensor<9x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
  %1 = stablehlo.select %mask, %0, %nan : tensor<2x3x4xi1>, tensor<2x3x4xf32>
  %2 = stablehlo.dot_general %w, %1, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<2x3xf32>, tensor<2x3x4xf32>) -> tensor<2x4xf32>
  %3 = stablehlo.dot_general %1, %q, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x3x4xf32>, tensor<2x4xf32>) -> tensor<2x3xf32>
  %4 = "stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 4>}> : (tensor<9x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
  %5 = stablehlo.select %mask, %4, %zero : tensor<2x3x4xi1>, tensor<2x3x4xf32>
  %6 = stablehlo.dot_general %w, %5, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<2x3xf32>, tensor<2x3x4xf32>) -> tensor<2x4xf32>
  return %2, %3, %6 : tensor<2x4xf32>, tensor<2x3xf32>, tensor<2x4xf32>
}

// -----

// Index vectors that count the rows: the rows walk along, and places are what is left of the vectors.

// CHECK-LABEL: func.func @main
// CHECK: %[[PLACE:.*]] = stablehlo.broadcast_in_dim %arg1
// CHECK: "stablehlo.gather"(%arg0, %[[PLACE]]) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 2>}>
// CHECK: "stablehlo.scatter"(%arg0, %[[PLACE]], %{{.*}}) <{indices_are_sorted = false,
// CHECK-SAME: update_window_dims = [1], inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 1>, unique_indices = true}>
// Of the table of five rows, the first three are not all.
// CHECK: "stablehlo.gather"(%arg2, %{{.*}}) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, indices_are_sorted = true,
func.func @main(%x: tensor<3x4x2xf32>, %i: tensor<3xi32>, %y: tensor<5x4x2xf32>) -> (tensor<3x4x2xf32>, tensor<3x2xf32>) {
  %row = stablehlo.iota dim = 0 : tensor<3x1xi32>
  %place = stablehlo.broadcast_in_dim %i, dims = [0] : (tensor<3xi32>) -> tensor<3x1xi32>
  %both = stablehlo.concatenate %row, %place, dim = 1 : (tensor<3x1xi32>, tensor<3x1xi32>) -> tensor<3x2xi32>
  %0 = "stablehlo.gather"(%x, %both) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, indices_are_sorted = true, slice_sizes = array<i64: 1, 1, 2>}> : (tensor<3x4x2xf32>, tensor<3x2xi32>) -> tensor<3x2xf32>
  %1 = "stablehlo.scatter"(%x, %both, %0) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, unique_indices = true}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    stablehlo.return %q : tensor<f32>
  }) : (tensor<3x4x2xf32>, tensor<3x2xi32>, tensor<3x2xf32>) -> tensor<3x4x2xf32>
  %2 = "stablehlo.gather"(%y, %both) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, indices_are_sorted = true, slice_sizes = array<i64: 1, 1, 2>}> : (tensor<5x4x2xf32>, tensor<3x2xi32>) -> tensor<3x2xf32>
  return %1, %2 : tensor<3x4x2xf32>, tensor<3x2xf32>
}
