// RUN: dtensor-opt %s --split-input-file -p dtensor-import,dtensor-find-forms | filecheck %s

// What is sorted, at the places of the sort, is what the sort gives; nobody reads the places then.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK: %[[SORTED:.*]] = "stablehlo.sort"(%arg0) <{dimension = 0 : i64, is_stable = true}>
// CHECK-NEXT: ^bb0(%[[P:.*]]: tensor<f32>, %[[Q:.*]]: tensor<f32>):
// CHECK-NEXT: stablehlo.compare LT, %[[P]], %[[Q]]
// CHECK: return %[[SORTED]]
func.func @main(%a: tensor<300xf32>) -> tensor<300xf32> {
  %zero = stablehlo.constant dense<0> : tensor<300xi32>
  %end = stablehlo.constant dense<300> : tensor<300xi32>
  %place = stablehlo.iota dim = 0 : tensor<300xi32>
  %0:2 = "stablehlo.sort"(%a, %place) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>, %r: tensor<i32>, %s: tensor<i32>):
    %1 = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<300xf32>, tensor<300xi32>) -> (tensor<300xf32>, tensor<300xi32>)
  %2 = stablehlo.compare LT, %0#1, %zero : (tensor<300xi32>, tensor<300xi32>) -> tensor<300xi1>
  %3 = stablehlo.add %0#1, %end : tensor<300xi32>
  %4 = stablehlo.select %2, %3, %0#1 : tensor<300xi1>, tensor<300xi32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<300xi32>) -> tensor<300x1xi32>
  %6 = "stablehlo.gather"(%a, %5) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}> : (tensor<300xf32>, tensor<300x1xi32>) -> tensor<300xf32>
  return %6 : tensor<300xf32>
}

// -----

// Another array that is split into 8 shards is sorted too; the places stay, for they are read.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=8]>} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK: %[[SORTED:.*]]:3 = "stablehlo.sort"(%arg0, %{{.*}}, %arg1)
// CHECK: {dtensor.places = 1 : i64} : (tensor<800xf32>, tensor<800xi32>, tensor<800xi8>)
// CHECK: return %[[SORTED]]#2, %[[SORTED]]#1
func.func @main(%a: tensor<800xf32>, %b: tensor<800xi8> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) -> (tensor<800xi8>, tensor<800xi32>) {
  %place = stablehlo.iota dim = 0 : tensor<800xi32>
  %0:2 = "stablehlo.sort"(%a, %place) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>, %r: tensor<i32>, %s: tensor<i32>):
    %1 = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<800xf32>, tensor<800xi32>) -> (tensor<800xf32>, tensor<800xi32>)
  %1 = stablehlo.reshape %0#1 : (tensor<800xi32>) -> tensor<800x1xi32>
  %2 = "stablehlo.gather"(%b, %1) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}> : (tensor<800xi8>, tensor<800x1xi32>) -> tensor<800xi8>
  return %2, %0#1 : tensor<800xi8>, tensor<800xi32>
}

// -----

// One that is not is looked up.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=8]>} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK: %[[SORTED:.*]]:2 = "stablehlo.sort"(%arg0, %{{.*}})
// CHECK: "stablehlo.gather"(%arg1,
func.func @main(%a: tensor<800xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}, %b: tensor<800xi8>) -> tensor<800xi8> {
  %place = stablehlo.iota dim = 0 : tensor<800xi32>
  %0:2 = "stablehlo.sort"(%a, %place) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>, %r: tensor<i32>, %s: tensor<i32>):
    %1 = stablehlo.compare LT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<800xf32>, tensor<800xi32>) -> (tensor<800xf32>, tensor<800xi32>)
  %1 = stablehlo.reshape %0#1 : (tensor<800xi32>) -> tensor<800x1xi32>
  %2 = "stablehlo.gather"(%b, %1) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}> : (tensor<800xi8>, tensor<800x1xi32>) -> tensor<800xi8>
  return %2 : tensor<800xi8>
}

// -----

// Two places are read: where the sixth and the seventh element stand.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK: %[[AT:.*]] = stablehlo.constant dense<[5, 6]> : tensor<2xi32>
// CHECK: %[[RANKED:.*]]:2 = "dtensor.ranked"(%arg0, %[[AT]])
// CHECK: (tensor<300xi16>, tensor<2xi32>) -> (tensor<2xi16>, tensor<2xi32>)
// CHECK-NOT: stablehlo.sort
// CHECK: return %[[RANKED]]#1
func.func @main(%a: tensor<300xi16> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}) -> tensor<2xi32> {
  %place = stablehlo.iota dim = 0 : tensor<300xi32>
  %0:2 = "stablehlo.sort"(%a, %place) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<i16>, %q: tensor<i16>, %r: tensor<i32>, %s: tensor<i32>):
    %1 = stablehlo.compare LT, %p, %q, SIGNED : (tensor<i16>, tensor<i16>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<300xi16>, tensor<300xi32>) -> (tensor<300xi16>, tensor<300xi32>)
  %2 = stablehlo.slice %0#1 [5:7] : (tensor<300xi32>) -> tensor<2xi32>
  return %2 : tensor<2xi32>
}

// -----

// The gradient of a quantile writes at two places of the order, each of which is known: what stands
// there is added where these elements stood.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK: %[[AT:.*]] = stablehlo.constant dense<[5, 7]> : tensor<2xi32>
// CHECK: %[[RANKED:.*]]:2 = "dtensor.ranked"(%arg0, %[[AT]])
// CHECK: %[[TURNED:.*]] = "stablehlo.gather"(%[[RANKED]]#1
// CHECK: %[[WHERE:.*]] = stablehlo.broadcast_in_dim %[[TURNED]], dims = [0] : (tensor<2xi32>) -> tensor<2x300xi32>
// CHECK: %[[HITS:.*]] = stablehlo.compare EQ, %{{.*}}, %[[WHERE]]
// CHECK: %[[EACH:.*]] = stablehlo.broadcast_in_dim %arg1, dims = [0] : (tensor<2xf32>) -> tensor<2x300xf32>
// CHECK: %[[ROWS:.*]] = stablehlo.select %[[HITS]], %[[EACH]]
// CHECK: stablehlo.reduce(%[[ROWS]] init: %{{.*}}) applies stablehlo.add across dimensions = [0]
// CHECK-NOT: stablehlo.sort
func.func @main(%a: tensor<300xf16> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}, %g: tensor<2xf32>) -> tensor<300xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<300xf32>
  %at = stablehlo.constant dense<[[7], [5]]> : tensor<2x1xi32>
  %place = stablehlo.iota dim = 0 : tensor<300xi32>
  %0:2 = "stablehlo.sort"(%a, %place) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<f16>, %q: tensor<f16>, %r: tensor<i32>, %s: tensor<i32>):
    %z = stablehlo.constant dense<0.0> : tensor<f16>
    %n = stablehlo.constant dense<0x7E00> : tensor<f16>
    %10 = stablehlo.compare EQ, %p, %z : (tensor<f16>, tensor<f16>) -> tensor<i1>
    %11 = stablehlo.select %10, %z, %p : tensor<i1>, tensor<f16>
    %12 = stablehlo.compare NE, %p, %p : (tensor<f16>, tensor<f16>) -> tensor<i1>
    %13 = stablehlo.select %12, %n, %11 : tensor<i1>, tensor<f16>
    %14 = stablehlo.compare EQ, %q, %z : (tensor<f16>, tensor<f16>) -> tensor<i1>
    %15 = stablehlo.select %14, %z, %q : tensor<i1>, tensor<f16>
    %16 = stablehlo.compare NE, %q, %q : (tensor<f16>, tensor<f16>) -> tensor<i1>
    %17 = stablehlo.select %16, %n, %15 : tensor<i1>, tensor<f16>
    %18 = stablehlo.compare LT, %13, %17, TOTALORDER : (tensor<f16>, tensor<f16>) -> tensor<i1>
    stablehlo.return %18 : tensor<i1>
  }) : (tensor<300xf16>, tensor<300xi32>) -> (tensor<300xf16>, tensor<300xi32>)
  %1 = "stablehlo.scatter"(%zero, %at, %g) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %10 = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %10 : tensor<f32>
  }) : (tensor<300xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<300xf32>
  %2 = stablehlo.reshape %0#1 : (tensor<300xi32>) -> tensor<300x1xi32>
  %3 = "stablehlo.scatter"(%zero, %2, %1) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %10 = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %10 : tensor<f32>
  }) : (tensor<300xf32>, tensor<300x1xi32>, tensor<300xf32>) -> tensor<300xf32>
  return %3 : tensor<300xf32>
}

// -----

// Each column has a place of its own, which may lie beyond an end: nothing is written there.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK: %[[AT:.*]] = stablehlo.reshape %arg1 : (tensor<1x3x1xi32>) -> tensor<1x3xi32>
// CHECK: "dtensor.ranked"(%arg0, %[[AT]])
// CHECK: %[[FIRST:.*]] = stablehlo.compare GE, %[[OWN:.*]], %{{.*}} : (tensor<1x3xi32>
// CHECK: %[[LAST:.*]] = stablehlo.compare LT, %[[OWN]], %{{.*}} : (tensor<1x3xi32>
// CHECK: %[[IN:.*]] = stablehlo.and %[[FIRST]], %[[LAST]]
// CHECK: stablehlo.select %[[IN]], %arg2
// CHECK-NOT: stablehlo.sort
func.func @main(%a: tensor<300x3xi8> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %at: tensor<1x3x1xi32>, %g: tensor<1x3xf32>) -> tensor<300x3xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<300x3xf32>
  %place = stablehlo.iota dim = 0 : tensor<300x3xi32>
  %0:2 = "stablehlo.sort"(%a, %place) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<i8>, %q: tensor<i8>, %r: tensor<i32>, %s: tensor<i32>):
    %10 = stablehlo.compare LT, %p, %q : (tensor<i8>, tensor<i8>) -> tensor<i1>
    stablehlo.return %10 : tensor<i1>
  }) : (tensor<300x3xi8>, tensor<300x3xi32>) -> (tensor<300x3xi8>, tensor<300x3xi32>)
  %1 = "stablehlo.scatter"(%zero, %at, %g) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], input_batching_dims = [1], scatter_indices_batching_dims = [1], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %10 = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %10 : tensor<f32>
  }) : (tensor<300x3xf32>, tensor<1x3x1xi32>, tensor<1x3xf32>) -> tensor<300x3xf32>
  %2 = stablehlo.reshape %0#1 : (tensor<300x3xi32>) -> tensor<300x3x1xi32>
  %3 = "stablehlo.scatter"(%zero, %2, %1) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], input_batching_dims = [1], scatter_indices_batching_dims = [1], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %10 = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %10 : tensor<f32>
  }) : (tensor<300x3xf32>, tensor<300x3x1xi32>, tensor<300x3xf32>) -> tensor<300x3xf32>
  return %3 : tensor<300x3xf32>
}

// -----

// A sum that is not zero at most places is written at all of them; and so is one at 17 places.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: "stablehlo.sort"
// CHECK-NOT: dtensor.ranked
func.func @main(%a: tensor<300xi8> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}, %b: tensor<300xi16> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>}, %g: tensor<300xf32>, %h: tensor<17xf32>) -> (tensor<300xf32>, tensor<300xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<300xf32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %place = stablehlo.iota dim = 0 : tensor<300xi32>
  %0:2 = "stablehlo.sort"(%a, %place) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<i8>, %q: tensor<i8>, %r: tensor<i32>, %s: tensor<i32>):
    %10 = stablehlo.compare LT, %p, %q : (tensor<i8>, tensor<i8>) -> tensor<i1>
    stablehlo.return %10 : tensor<i1>
  }) : (tensor<300xi8>, tensor<300xi32>) -> (tensor<300xi8>, tensor<300xi32>)
  %1 = stablehlo.pad %h, %none, low = [3], high = [280], interior = [0] : (tensor<17xf32>, tensor<f32>) -> tensor<300xf32>
  %2 = stablehlo.slice %1 [2:4] : (tensor<300xf32>) -> tensor<2xf32>
  %3 = stablehlo.pad %2, %none, low = [3], high = [295], interior = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<300xf32>
  %4 = stablehlo.add %3, %g : tensor<300xf32>
  %5 = stablehlo.reshape %0#1 : (tensor<300xi32>) -> tensor<300x1xi32>
  %6 = "stablehlo.scatter"(%zero, %5, %4) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %10 = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %10 : tensor<f32>
  }) : (tensor<300xf32>, tensor<300x1xi32>, tensor<300xf32>) -> tensor<300xf32>
  %7:2 = "stablehlo.sort"(%b, %place) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<i16>, %q: tensor<i16>, %r: tensor<i32>, %s: tensor<i32>):
    %10 = stablehlo.compare LT, %p, %q : (tensor<i16>, tensor<i16>) -> tensor<i1>
    stablehlo.return %10 : tensor<i1>
  }) : (tensor<300xi16>, tensor<300xi32>) -> (tensor<300xi16>, tensor<300xi32>)
  %8 = stablehlo.reshape %7#1 : (tensor<300xi32>) -> tensor<300x1xi32>
  %9 = "stablehlo.scatter"(%zero, %8, %1) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %10 = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %10 : tensor<f32>
  }) : (tensor<300xf32>, tensor<300x1xi32>, tensor<300xf32>) -> tensor<300xf32>
  return %6, %9 : tensor<300xf32>, tensor<300xf32>
}

// -----

// What is sorted along and read by nobody is left out, not what the body compares.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK: %[[SORTED:.*]]:3 = "stablehlo.sort"(%arg0, %arg1, %arg3) <{dimension = 0 : i64, is_stable = true}>
// CHECK-NEXT: ^bb0(%[[P:.*]]: tensor<i8>, %[[Q:.*]]: tensor<i8>, %[[R:.*]]: tensor<i16>, %[[S:.*]]: tensor<i16>, %{{.*}}: tensor<i64>, %{{.*}}: tensor<i64>):
// CHECK: stablehlo.compare LT, %[[R]], %[[S]]
// CHECK: return %[[SORTED]]#0, %[[SORTED]]#2
func.func @main(%a: tensor<300xi8>, %b: tensor<300xi16>, %c: tensor<300xi32>, %d: tensor<300xi64>) -> (tensor<300xi8>, tensor<300xi64>) {
  %0:4 = "stablehlo.sort"(%a, %b, %c, %d) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%p: tensor<i8>, %q: tensor<i8>, %r: tensor<i16>, %s: tensor<i16>, %t: tensor<i32>, %u: tensor<i32>, %v: tensor<i64>, %w: tensor<i64>):
    %1 = stablehlo.compare LT, %r, %s : (tensor<i16>, tensor<i16>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<300xi8>, tensor<300xi16>, tensor<300xi32>, tensor<300xi64>) -> (tensor<300xi8>, tensor<300xi16>, tensor<300xi32>, tensor<300xi64>)
  return %0#0, %0#3 : tensor<300xi8>, tensor<300xi64>
}
