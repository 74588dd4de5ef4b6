// RUN: dtensor-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{'dtensor.mesh' lacks attribute 'mesh'; add it}}
"dtensor.mesh"() {sym_name = "mesh"} : () -> ()

// -----

// expected-error @below {{'dtensor.mesh' lacks attribute 'sym_name'; add it}}
"dtensor.mesh"() {mesh = #dtensor.mesh<["x"=2]>} : () -> ()

// -----

// expected-error @below {{malformed mesh axis '"x"'; the form is "x"=2}}
"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"]>} : () -> ()

// -----

// expected-error @below {{mesh axis 'x' has size 0; it must be a positive integer}}
"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=0]>} : () -> ()

// -----

// expected-error @below {{mesh axis 'x' is given twice; axis names must differ}}
"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "x"=4]>} : () -> ()

// -----

// expected-error @below {{mesh of 4 devices was given 3 device ids; give one each}}
"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=4], device_ids=[0, 1, 2]>} : () -> ()

// -----

// expected-error @below {{malformed device id '0 1'; commas separate them}}
"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2], device_ids=[0 1]>} : () -> ()

// -----

// expected-error @below {{malformed mesh axis '"x"=1000000000000000000000'; the form is "x"=2}}
"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=1000000000000000000000]>} : () -> ()

// -----

// expected-error @below {{expected a #dtensor.mesh<...> attribute, found 4 : i64}}
"dtensor.mesh"() {sym_name = "mesh", mesh = 4 : i64} : () -> ()

// -----

// expected-error @below {{'dtensor.mesh' has no attribute 'axes'; known are sym_name, mesh}}
"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>, axes = 1 : i64} : () -> ()

// -----

func.func @main() {
  // expected-error @below {{a mesh must stand at the top of the module; move it out of the function}}
  "dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
  return
}

// -----

// expected-error @below {{'sym_name' must be a string, found 3 : i64}}
"dtensor.mesh"() {sym_name = 3, mesh = #dtensor.mesh<["x"=2]>} : () -> ()
