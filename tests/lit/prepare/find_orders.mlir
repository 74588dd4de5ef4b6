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

// Two places are read: which of the elements that equal the sixth, the seventh stands there.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// CHECK-LABEL: func.func @main
// CHECK: %[[RANKED:.*]] = "dtensor.ranked"(%arg0, %{{.*}})
// CHECK: %[[EACH:.*]] = stablehlo.broadcast_in_dim %[[RANKED]], dims = [0] : (tensor<2xi16>) -> tensor<2x300xi16>
// CHECK: %[[BEFORE:.*]] = stablehlo.compare LT, %{{.*}}, %[[EACH]]
// CHECK: %[[BEHIND:.*]] = stablehlo.compare LT, %[[EACH]], %{{.*}}
// CHECK: %[[EITHER:.*]] = stablehlo.or %[[BEFORE]], %[[BEHIND]]
// CHECK: %[[EQUAL:.*]] = stablehlo.not %[[EITHER]]
// CHECK: stablehlo.add across dimensions = [1] : (tensor<2x300xi32>, tensor<i32>) -> tensor<2xi32>
// CHECK: "stablehlo.reduce_window"
// CHECK: %[[HIT:.*]] = stablehlo.and %[[EQUAL]], %{{.*}} : tensor<2x300xi1>
// CHECK: stablehlo.select %[[HIT]]
// CHECK: stablehlo.add across dimensions = [1] : (tensor<2x300xi32>, tensor<i32>) -> tensor<2xi32>
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
