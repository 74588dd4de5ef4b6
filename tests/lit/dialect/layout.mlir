// RUN: dtensor-opt %s | dtensor-opt | filecheck %s

// Every form of a layout survives being printed and read.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// CHECK-LABEL: func.func private @axes_major_first
// CHECK-SAME: #dtensor.layout<@mesh, [{"y", "x"}, {}]>
func.func private @axes_major_first(
  tensor<8x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y", "x"}, {}]>})

// CHECK-LABEL: func.func private @part_of_an_axis
// CHECK-SAME: #dtensor.layout<@mesh, [{"y":(1)2}, {"y":(2)2}]>
func.func private @part_of_an_axis(
  tensor<2x4xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y":(1)2}, {"y":(2)2}]>})

// CHECK-LABEL: func.func private @blocks
// CHECK-SAME: #dtensor.layout<@mesh, [{3, "x"}]>
func.func private @blocks(tensor<12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{3, "x"}]>})

// CHECK-LABEL: func.func private @open_dimensions
// CHECK-SAME: #dtensor.layout<@mesh, [{"x", ?!"y"}p1, {?}]>
func.func private @open_dimensions(
  tensor<2x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x", ?!"y"}p1, {?}]>})

// CHECK-LABEL: func.func private @partial_over_two_axes
// CHECK-SAME: #dtensor.layout<@mesh, [{}], partial = {sum: ("x", "y")}>
func.func private @partial_over_two_axes(
  tensor<3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}], partial = {sum: ("x", "y")}>})

// CHECK-LABEL: func.func private @scalar_partial_in_two_ways
// CHECK-SAME: #dtensor.layout<@mesh, [], partial = {max: "x", and: "y"}>
func.func private @scalar_partial_in_two_ways(
  tensor<i1> {dtensor.layout = #dtensor.layout<@mesh, [], partial = {max: "x", and: "y"}>})
