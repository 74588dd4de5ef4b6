// RUN: dtensor-opt %s --split-input-file --verify-diagnostics

// A layout that does not fit its tensor or its mesh is an error, whatever carries it.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
// expected-error @below {{argument 0: layout has 1 dimensions but the tensor has rank 2}}
func.func private @rank(tensor<2x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>})

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
// expected-error @below {{argument 0: dimension 0 has 8 elements, not divisible by the 6 blocks of {3, "x"}; pad it to 12, or leave it whole}}
func.func private @blocks(tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{3, "x"}]>})

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
// expected-error @below {{layout names axis "z" that mesh @mesh does not have; it has "x", "y"}}
func.func private @axis(tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"z"}]>})

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
// expected-error @below {{[{match}]: in a module no dimension is {match}; write {?}}}
func.func private @match(tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{match}]>})

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
// expected-error @below {{layout uses axis "x" twice; an axis can split one dimension}}
func.func private @twice(tensor<8x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"x"}]>})

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
// expected-error @below {{layout uses axis "y" twice}}
func.func private @part_and_whole(
  tensor<8x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {"y":(1)2}]>})

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
// expected-error @below {{layout uses axis "x" twice}}
func.func private @split_and_partial(
  tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}], partial = {sum: "x"}>})

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
// expected-error @below {{"y":(2)4 is not a part of axis 'y', which has 4 devices}}
func.func private @part(tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y":(2)4}]>})

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
// expected-error @below {{expected ',', found '!' at column 20}}
func.func private @not_open(tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"!"y"}]>})

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
// expected-error @below {{expected a priority such as p1, found 'first'}}
func.func private @priority(tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}first]>})

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
// expected-error @below {{unknown reduction 'mean'; known are sum, max, min, prod, and, or}}
func.func private @reduction(
  tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}], partial = {mean: "x"}>})

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
// expected-error @below {{unknown mesh @mash; did you mean '@mesh'?}}
func.func private @mesh_name(tensor<8xf32> {dtensor.layout = #dtensor.layout<@mash, [{"x"}]>})

// -----

// expected-error @below {{unknown mesh @mesh; add a "dtensor.mesh" operation, or --mesh x=2}}
func.func private @no_mesh(tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>})

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
// expected-error @below {{malformed layout 'layout<@mesh, [x]>': expected '{', found 'x' at column 16}}
func.func private @malformed(tensor<8xf32> {dtensor.layout = #dtensor.layout<@mesh, [x]>})

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
// expected-error @below {{expected a #dtensor.layout<...> attribute, found "x"}}
func.func private @string(tensor<8xf32> {dtensor.layout = "x"})

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
// expected-error @below {{expected a #dtensor.layout<...> attribute, found #dtensor.axes<@mesh, ["x"]>}}
func.func private @axes(tensor<8xf32> {dtensor.layout = #dtensor.axes<@mesh, ["x"]>})

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()
// expected-error @below {{a layout needs a tensor of static shape, found tensor<?xf32>}}
func.func private @dynamic(tensor<?xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}]>})
