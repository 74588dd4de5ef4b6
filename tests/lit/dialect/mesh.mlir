// RUN: dtensor-opt %s | dtensor-opt | filecheck %s

// A mesh is a symbol at the top of the module; reading what was printed gives the same.

// CHECK: "dtensor.mesh"() {mesh = #dtensor.mesh<["x"=2, "y"=4]>, sym_name = "mesh"} : () -> ()
"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// Device ids may be in any order.
// CHECK: "dtensor.mesh"() {mesh = #dtensor.mesh<["a"=2], device_ids=[1, 0]>, sym_name = "swapped"}
"dtensor.mesh"() {sym_name = "swapped", mesh = #dtensor.mesh<["a"=2], device_ids=[1, 0]>} : () -> ()

// A mesh of one device has no axes.
// CHECK: "dtensor.mesh"() {mesh = #dtensor.mesh<[]>, sym_name = "single"}
"dtensor.mesh"() {sym_name = "single", mesh = #dtensor.mesh<[]>} : () -> ()
