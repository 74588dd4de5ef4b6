// RUN: dtensor-opt %s --split-input-file --dtensor-find-forms | filecheck %s

// What StableHLO says in other operations too is said in those; so is what XLA takes on one device alone.

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<2x4x3x7xf32>, %b: tensor<2x3x5xf32>) -> tensor<5x2x4xf32> {
  // CHECK: %[[SUM:.*]] = stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.add across dimensions = [3] : (tensor<2x4x3x7xf32>, tensor<f32>) -> tensor<2x4x3xf32>
  // CHECK: %[[DOT:.*]] = stablehlo.dot_general %[[SUM]], %arg1, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x4x3xf32>, tensor<2x3x5xf32>) -> tensor<2x4x5xf32>
  // CHECK: stablehlo.transpose %[[DOT]], dims = [2, 0, 1]
  %0 = stablehlo.einsum %a, %b, config = "bijs,bjk->kbi" : (tensor<2x4x3x7xf32>, tensor<2x3x5xf32>) -> tensor<5x2x4xf32>
  return %0 : tensor<5x2x4xf32>
}

// -----

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<2x6x4x3xf32>, %b: tensor<6x3xf32>) -> tensor<2x6x4xf32> {
  // CHECK: stablehlo.dot_general %arg0, %arg1, batching_dims = [1] x [0], contracting_dims = [3] x [1] : (tensor<2x6x4x3xf32>, tensor<6x3xf32>) -> tensor<6x2x4xf32>
  // CHECK: stablehlo.transpose %{{.*}}, dims = [1, 0, 2]
  %0 = stablehlo.einsum %a, %b, config = "...ij,...j->...i" : (tensor<2x6x4x3xf32>, tensor<6x3xf32>) -> tensor<2x6x4xf32>
  return %0 : tensor<2x6x4xf32>
}

// -----

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<2x3x4xf32>, %d: tensor<3x3xf32>) -> (tensor<4x2xf32>, tensor<3xf32>) {
  // CHECK: %[[SUM:.*]] = stablehlo.reduce(%arg0 init: %{{.*}}) applies stablehlo.add across dimensions = [1]
  // CHECK: stablehlo.transpose %[[SUM]], dims = [1, 0]
  %0 = "stablehlo.unary_einsum"(%a) {einsum_config = "ijk->ki"} : (tensor<2x3x4xf32>) -> tensor<4x2xf32>
  // A diagonal is what stands where its indices are equal.
  // CHECK: %[[EQUAL:.*]] = stablehlo.compare EQ
  // CHECK: %[[DIAGONAL:.*]] = stablehlo.select %[[EQUAL]], %arg1, %{{.*}} : tensor<3x3xi1>, tensor<3x3xf32>
  // CHECK: stablehlo.reduce(%[[DIAGONAL]] init: %{{.*}}) applies stablehlo.add across dimensions = [1]
  // CHECK-NOT: unary_einsum
  %1 = "stablehlo.unary_einsum"(%d) {einsum_config = "ii->i"} : (tensor<3x3xf32>) -> tensor<3xf32>
  return %0, %1 : tensor<4x2xf32>, tensor<3xf32>
}

// -----

// CHECK-LABEL: func.func @main
func.func @main(%t: tensor<2x5x9x3xf32>, %i: tensor<2x7xi32>) -> tensor<2x5x7x3xf32> {
  // CHECK: %[[PLACES:.*]] = stablehlo.reshape %arg1 : (tensor<2x7xi32>) -> tensor<2x7x1xi32>
  // CHECK: "stablehlo.gather"(%arg0, %[[PLACES]]) <{dimension_numbers = #stablehlo.gather<offset_dims = [1, 3], collapsed_slice_dims = [2], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [2], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 5, 1, 3>}>
  %0 = "stablehlo.torch_index_select"(%t, %i) {dim = 2 : i64, batch_dims = 1 : i64} : (tensor<2x5x9x3xf32>, tensor<2x7xi32>) -> tensor<2x5x7x3xf32>
  return %0 : tensor<2x5x7x3xf32>
}

// -----

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<2x3x4xbf16>, %f: tensor<3xbf16>) -> tensor<3xbf16> {
  // CHECK: %[[WIDE:.*]] = stablehlo.convert %arg0 : (tensor<2x3x4xbf16>) -> tensor<2x3x4xf32>
  // CHECK: %[[ROWS:.*]] = stablehlo.reduce(%[[WIDE]] init: %{{.*}}) applies stablehlo.add across dimensions = [2]
  // CHECK: %[[SUM:.*]] = stablehlo.reduce(%[[ROWS]] init: %{{.*}}) applies stablehlo.add across dimensions = [0]
  // CHECK: %[[COUNT:.*]] = stablehlo.constant dense<8.000000e+00> : tensor<3xf32>
  // CHECK: %[[MEAN:.*]] = stablehlo.divide %[[SUM]], %[[COUNT]]
  // CHECK: stablehlo.broadcast_in_dim %[[MEAN]], dims = [1]
  // CHECK-NOT: batch_norm
  %0:3 = "stablehlo.batch_norm_training"(%a, %f, %f) <{epsilon = 0.01 : f32, feature_index = 1 : i64}> : (tensor<2x3x4xbf16>, tensor<3xbf16>, tensor<3xbf16>) -> (tensor<2x3x4xbf16>, tensor<3xbf16>, tensor<3xbf16>)
  return %0#2 : tensor<3xbf16>
}

// -----

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<2x3xf32>, %b: tensor<3xf32>, %c: tensor<2x1xf32>, %p: tensor<i1>, %d: tensor<2xf32>) -> (tensor<2x3xf32>, tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>) {
  // CHECK: %[[ROW:.*]] = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: stablehlo.add %arg0, %[[ROW]]
  %0 = chlo.broadcast_add %a, %b : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  // CHECK: %[[COLUMN:.*]] = stablehlo.broadcast_in_dim %arg2, dims = [0, 1]
  // CHECK: stablehlo.compare LT, %[[COLUMN]], %{{.*}}, TOTALORDER
  %1 = chlo.broadcast_compare %c, %b {comparison_direction = #chlo<comparison_direction LT>, compare_type = #chlo<comparison_type TOTALORDER>} : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  // A predicate of no dimensions stays one.
  // CHECK: stablehlo.select %arg3, %arg0, %{{.*}} : tensor<i1>, tensor<2x3xf32>
  %2 = chlo.broadcast_select %p, %a, %c : (tensor<i1>, tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  // What StableHLO does not have stays CHLO's.
  // CHECK: %[[FIRST:.*]] = stablehlo.broadcast_in_dim %arg4, dims = [0]
  // CHECK: chlo.next_after %arg0, %[[FIRST]]
  %3 = chlo.broadcast_next_after %a, %d {broadcast_dimensions = array<i64: 0>} : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>
  return %0, %1, %2, %3 : tensor<2x3xf32>, tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>
}

// -----

// Of three arrays, the first and the last are reduced by what compares the first; the other one,
// which has nothing to do with them, by itself.

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>, %c: tensor<2x3xi32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xi32>) {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %first = stablehlo.constant dense<0> : tensor<i32>
  // CHECK: %[[BEST:.*]]:2 = stablehlo.reduce(%arg0 init: %{{.*}}), (%arg2 init: %{{.*}}) across dimensions = [1]
  // CHECK: reducer(%[[X:.*]]: tensor<f32>, %[[Y:.*]]: tensor<f32>) (%[[P:.*]]: tensor<i32>, %[[Q:.*]]: tensor<i32>)
  // CHECK-NEXT: %[[GE:.*]] = stablehlo.compare GE, %[[X]], %[[Y]]
  // CHECK-NEXT: %[[R:.*]] = stablehlo.select %[[GE]], %[[X]], %[[Y]]
  // CHECK-NEXT: %[[S:.*]] = stablehlo.select %[[GE]], %[[P]], %[[Q]]
  // CHECK-NEXT: stablehlo.return %[[R]], %[[S]]
  // CHECK: %[[SUM:.*]] = stablehlo.reduce(%arg1 init: %{{.*}}) applies stablehlo.add across dimensions = [1]
  // CHECK: return %[[BEST]]#0, %[[SUM]], %[[BEST]]#1
  %0:3 = stablehlo.reduce(%a init: %low), (%b init: %zero), (%c init: %first) across dimensions = [1] : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xi32>, tensor<f32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xi32>)
   reducer(%x: tensor<f32>, %y: tensor<f32>) (%u: tensor<f32>, %v: tensor<f32>) (%p: tensor<i32>, %q: tensor<i32>) {
    %ge = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %r = stablehlo.select %ge, %x, %y : tensor<i1>, tensor<f32>
    %t = stablehlo.add %u, %v : tensor<f32>
    %s = stablehlo.select %ge, %p, %q : tensor<i1>, tensor<i32>
    stablehlo.return %r, %t, %s : tensor<f32>, tensor<f32>, tensor<i32>
  }
  return %0#0, %0#1, %0#2 : tensor<2xf32>, tensor<2xf32>, tensor<2xi32>
}

// -----

// The sign comes along to 64 bits, and shifts in with the upper half.

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<6x5xi16>, %b: tensor<6x5xi16>, %c: tensor<6x5xui8>) -> (tensor<6x5xi16>, tensor<6x5xui8>) {
  // CHECK: %[[A:.*]] = stablehlo.convert %arg0 : (tensor<6x5xi16>) -> tensor<6x5xi64>
  // CHECK: %[[B:.*]] = stablehlo.convert %arg1 : (tensor<6x5xi16>) -> tensor<6x5xi64>
  // CHECK: %[[PRODUCT:.*]] = stablehlo.multiply %[[A]], %[[B]]
  // CHECK: %[[BITS:.*]] = stablehlo.constant dense<16> : tensor<6x5xi64>
  // CHECK: %[[HIGH:.*]] = stablehlo.shift_right_arithmetic %[[PRODUCT]], %[[BITS]]
  // CHECK: stablehlo.convert %[[HIGH]] : (tensor<6x5xi64>) -> tensor<6x5xi16>
  // CHECK: stablehlo.shift_right_logical %{{.*}} : tensor<6x5xui64>
  %0 = chlo.mulhi %a, %b : tensor<6x5xi16>, tensor<6x5xi16> -> tensor<6x5xi16>
  %1 = chlo.mulhi %c, %c : tensor<6x5xui8>, tensor<6x5xui8> -> tensor<6x5xui8>
  return %0, %1 : tensor<6x5xi16>, tensor<6x5xui8>
}

// -----

// Elements are reduced in the order of their indices, however dimensions are listed.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<4x8x3xi32>) -> tensor<3xi32> {
  %one = stablehlo.constant dense<1> : tensor<i32>
  // CHECK: stablehlo.reduce(%arg0 init: %{{.*}}) across dimensions = [0, 1] : (tensor<4x8x3xi32>, tensor<i32>) -> tensor<3xi32>
  // CHECK-NEXT: reducer(%[[L:.*]]: tensor<i32>, %[[R:.*]]: tensor<i32>)
  // CHECK-NEXT: %[[D:.*]] = stablehlo.subtract %[[L]], %[[R]]
  %0 = stablehlo.reduce(%a init: %one) across dimensions = [1, 0] : (tensor<4x8x3xi32>, tensor<i32>) -> tensor<3xi32>
    reducer(%l: tensor<i32>, %r: tensor<i32>) {
      %1 = stablehlo.subtract %l, %r : tensor<i32>
      stablehlo.return %1 : tensor<i32>
    }
  return %0 : tensor<3xi32>
}
