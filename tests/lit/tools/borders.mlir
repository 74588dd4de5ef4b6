// RUN: dtensor-opt %s --split-input-file --mesh=x=2 --dtensor-prepare | filecheck %s

// HLO that became StableHLO takes and returns tuples: each element is an argument, or a result, by
// itself. The function that is run is public.

// CHECK-LABEL: func.func @main(
// CHECK-SAME: [[A:%arg0]]: tensor<8x4xf32>, [[B:%arg1]]: tensor<8x4xf32>, [[N:%arg2]]: tensor<i32>, [[C:%arg3]]: tensor<8x4xf32> {my.name = "c"})
// CHECK-SAME: -> (tensor<8x4xf32> {my.name = "sum"}, tensor<8x4xf32>, tensor<i32>)
func.func @main(%a: tuple<tensor<8x4xf32>, tuple<tensor<8x4xf32>, tensor<i32>>>, %c: tensor<8x4xf32> {my.name = "c"})
    -> (tensor<8x4xf32> {my.name = "sum"}, tuple<tensor<8x4xf32>, tuple<tensor<i32>>, tuple<>>) {
  %0 = stablehlo.get_tuple_element %a[0] : (tuple<tensor<8x4xf32>, tuple<tensor<8x4xf32>, tensor<i32>>>) -> tensor<8x4xf32>
  %1 = stablehlo.get_tuple_element %a[1] : (tuple<tensor<8x4xf32>, tuple<tensor<8x4xf32>, tensor<i32>>>) -> tuple<tensor<8x4xf32>, tensor<i32>>
  %2 = stablehlo.get_tuple_element %1[0] : (tuple<tensor<8x4xf32>, tensor<i32>>) -> tensor<8x4xf32>
  %3 = stablehlo.get_tuple_element %1[1] : (tuple<tensor<8x4xf32>, tensor<i32>>) -> tensor<i32>
  // CHECK: [[SUM:%.*]] = stablehlo.add [[A]], [[B]]
  %4 = stablehlo.add %0, %2 : tensor<8x4xf32>
  // CHECK: [[MORE:%.*]] = stablehlo.subtract [[SUM]], [[C]]
  %5 = stablehlo.subtract %4, %c : tensor<8x4xf32>
  %6 = stablehlo.tuple : tuple<>
  %7 = stablehlo.tuple %3 : tuple<tensor<i32>>
  %8 = stablehlo.tuple %5, %7, %6 : tuple<tensor<8x4xf32>, tuple<tensor<i32>>, tuple<>>
  // CHECK: return [[SUM]], [[MORE]], [[N]]
  return %4, %8 : tensor<8x4xf32>, tuple<tensor<8x4xf32>, tuple<tensor<i32>>, tuple<>>
}

// -----

// CHECK-LABEL: func.func @main(%arg0: tensor<8x4xf32>)
func.func private @main(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // CHECK: stablehlo.add
  %0 = stablehlo.add %a, %a : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
