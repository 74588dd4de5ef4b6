// RUN: dtensor-opt %s -p dtensor-lower --split-input-file --verify-diagnostics

// A collective in a branch hangs if its devices take different branches. The predicate here is
// this device's coordinate on y, and the collective is over y.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%arg0: tensor<2x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}, %arg1: tensor<i1> {dtensor.layout = #dtensor.layout<@mesh, []>}) -> tensor<2x3xf32> {
  %i = "dtensor.axis_index"() {axes = #dtensor.axes<@mesh, ["y"]>} : () -> tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %p = stablehlo.compare EQ, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %r = "stablehlo.if"(%p) ({
    // expected-error @+1 {{all_reduce over mesh axes ['y'] stands in a branch or loop whose predicate may differ over mesh axes ['y']: devices would wait for others that never come; compute the predicate from replicated values, or move the sharded work out of the branch or loop}}
    %s = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    stablehlo.return %s : tensor<2x3xf32>
  }, {
    stablehlo.return %arg0 : tensor<2x3xf32>
  }) : (tensor<i1>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// -----

// All devices along x have one coordinate on y: they agree.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%arg0: tensor<2x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}, %arg1: tensor<i1> {dtensor.layout = #dtensor.layout<@mesh, []>}) -> tensor<2x3xf32> {
  %i = "dtensor.axis_index"() {axes = #dtensor.axes<@mesh, ["y"]>} : () -> tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %p = stablehlo.compare EQ, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %r = "stablehlo.if"(%p) ({
    %s = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["x"]>, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    stablehlo.return %s : tensor<2x3xf32>
  }, {
    stablehlo.return %arg0 : tensor<2x3xf32>
  }) : (tensor<i1>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// -----

// A replicated argument is the same everywhere.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%arg0: tensor<2x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}, %arg1: tensor<i1> {dtensor.layout = #dtensor.layout<@mesh, []>}) -> tensor<2x3xf32> {
  %r = "stablehlo.if"(%arg1) ({
    %s = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    stablehlo.return %s : tensor<2x3xf32>
  }, {
    stablehlo.return %arg0 : tensor<2x3xf32>
  }) : (tensor<i1>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// -----

// A shard differs over the axes that split it.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%arg0: tensor<2x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}) -> tensor<2x3xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %t = stablehlo.reduce(%arg0 init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
  %p = stablehlo.compare LT, %t, %zero : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %r = "stablehlo.if"(%p) ({
    // expected-error @+1 {{all_gather over mesh axes ['y'] stands in a branch or loop whose predicate may differ over mesh axes ['y']: devices would wait for others that never come; compute the predicate from replicated values, or move the sharded work out of the branch or loop}}
    %g = "dtensor.all_gather"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<2x3xf32>) -> tensor<8x3xf32>
    %s = "dtensor.all_slice"(%g) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64} : (tensor<8x3xf32>) -> tensor<2x3xf32>
    stablehlo.return %s : tensor<2x3xf32>
  }, {
    stablehlo.return %arg0 : tensor<2x3xf32>
  }) : (tensor<i1>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// -----

// Reduced over its axis, it is the same everywhere again.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%arg0: tensor<2x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}) -> tensor<2x3xf32> {
  %whole = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %t = stablehlo.reduce(%whole init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<f32>
  %p = stablehlo.compare LT, %t, %zero : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %r = "stablehlo.if"(%p) ({
    %s = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    stablehlo.return %s : tensor<2x3xf32>
  }, {
    stablehlo.return %arg0 : tensor<2x3xf32>
  }) : (tensor<i1>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// -----

// Nothing is known of an argument without a layout.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%arg0: tensor<2x3xf32>, %arg1: tensor<i1>) -> tensor<2x3xf32> {
  %r = "stablehlo.if"(%arg1) ({
    // expected-error @+1 {{all_reduce over mesh axes ['y'] stands in a branch or loop whose predicate may differ over mesh axes ['x', 'y']}}
    %s = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    stablehlo.return %s : tensor<2x3xf32>
  }, {
    stablehlo.return %arg0 : tensor<2x3xf32>
  }) : (tensor<i1>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// -----

// Every device counts to ten.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%arg0: tensor<2x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}) -> tensor<2x3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %limit = stablehlo.constant dense<10> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %v = %arg0) : tensor<i32>, tensor<2x3xf32> cond {
    %c = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %n = stablehlo.add %i, %one : tensor<i32>
    %s = "dtensor.all_reduce"(%v) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    stablehlo.return %n, %s : tensor<i32>, tensor<2x3xf32>
  }
  return %r#1 : tensor<2x3xf32>
}

// -----

// Every device counts to another number.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%arg0: tensor<2x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}) -> tensor<2x3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %limit = "dtensor.axis_index"() {axes = #dtensor.axes<@mesh, ["y"]>} : () -> tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %v = %arg0) : tensor<i32>, tensor<2x3xf32> cond {
    %c = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %n = stablehlo.add %i, %one : tensor<i32>
    // expected-error @+1 {{all_reduce over mesh axes ['y'] stands in a branch or loop whose predicate may differ over mesh axes ['y']: devices would wait for others that never come; compute the predicate from replicated values, or move the sharded work out of the branch or loop}}
    %s = "dtensor.all_reduce"(%v) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    stablehlo.return %n, %s : tensor<i32>, tensor<2x3xf32>
  }
  return %r#1 : tensor<2x3xf32>
}

// -----

// They start alike, but each counts in steps of its own: seen only when the loop is followed twice.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%arg0: tensor<2x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}) -> tensor<2x3xf32> {
  %mine = "dtensor.axis_index"() {axes = #dtensor.axes<@mesh, ["y"]>} : () -> tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %limit = stablehlo.constant dense<10> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %v = %arg0) : tensor<i32>, tensor<2x3xf32> cond {
    %c = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %n = stablehlo.add %i, %mine : tensor<i32>
    // expected-error @+1 {{all_reduce over mesh axes ['y'] stands in a branch or loop whose predicate may differ over mesh axes ['y']: devices would wait for others that never come; compute the predicate from replicated values, or move the sharded work out of the branch or loop}}
    %s = "dtensor.all_reduce"(%v) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    stablehlo.return %n, %s : tensor<i32>, tensor<2x3xf32>
  }
  return %r#1 : tensor<2x3xf32>
}

// -----

// After a loop that devices leave at different times, what it carried differs as well.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%arg0: tensor<2x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}) -> tensor<2x3xf32> {
  %mine = "dtensor.axis_index"() {axes = #dtensor.axes<@mesh, ["y"]>} : () -> tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.while(%i = %zero) : tensor<i32> cond {
    %c = stablehlo.compare LT, %i, %mine : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %m = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %m : tensor<i32>
  }
  %p = stablehlo.compare EQ, %n, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %r = "stablehlo.if"(%p) ({
    // expected-error @+1 {{all_reduce over mesh axes ['y'] stands in a branch or loop whose predicate may differ over mesh axes ['y']: devices would wait for others that never come; compute the predicate from replicated values, or move the sharded work out of the branch or loop}}
    %s = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    stablehlo.return %s : tensor<2x3xf32>
  }, {
    stablehlo.return %arg0 : tensor<2x3xf32>
  }) : (tensor<i1>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// -----

// Parts of one axis are told apart: the minor half may differ where the major one is reduced.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%arg0: tensor<2x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}, %arg1: tensor<i1> {dtensor.layout = #dtensor.layout<@mesh, []>}) -> tensor<2x3xf32> {
  %i = "dtensor.axis_index"() {axes = #dtensor.axes<@mesh, ["y":(2)2]>} : () -> tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %p = stablehlo.compare EQ, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %r = "stablehlo.if"(%p) ({
    %s = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["y":(1)2]>, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    stablehlo.return %s : tensor<2x3xf32>
  }, {
    stablehlo.return %arg0 : tensor<2x3xf32>
  }) : (tensor<i1>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// -----

// A function is followed for what each call gives it.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func private @summed_if(%p: tensor<i1>, %a: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = "stablehlo.if"(%p) ({
    // expected-error @+1 {{all_reduce over mesh axes ['y'] stands in a branch or loop whose predicate may differ over mesh axes ['y']}}
    %s = "dtensor.all_reduce"(%a) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    stablehlo.return %s : tensor<2x3xf32>
  }, {
    stablehlo.return %a : tensor<2x3xf32>
  }) : (tensor<i1>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

func.func @main(%arg0: tensor<2x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}, %arg1: tensor<i1> {dtensor.layout = #dtensor.layout<@mesh, []>}) -> tensor<2x3xf32> {
  %0 = func.call @summed_if(%arg1, %arg0) : (tensor<i1>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = func.call @summed_if(%arg1, %0) : (tensor<i1>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %i = "dtensor.axis_index"() {axes = #dtensor.axes<@mesh, ["y"]>} : () -> tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %p = stablehlo.compare EQ, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %2 = func.call @summed_if(%p, %1) : (tensor<i1>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}

// -----

// Where a function gives what its devices agree on, a call is followed on by what that does.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func private @not(%p: tensor<i1>) -> tensor<i1> {
  %r = stablehlo.not %p : tensor<i1>
  return %r : tensor<i1>
}

func.func @main(%arg0: tensor<2x3xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}, %arg1: tensor<i1> {dtensor.layout = #dtensor.layout<@mesh, []>}) -> tensor<2x3xf32> {
  %p = func.call @not(%arg1) : (tensor<i1>) -> tensor<i1>
  %q = func.call @not(%p) : (tensor<i1>) -> tensor<i1>
  %r = "stablehlo.if"(%q) ({
    %s = "dtensor.all_reduce"(%arg0) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    stablehlo.return %s : tensor<2x3xf32>
  }, {
    stablehlo.return %arg0 : tensor<2x3xf32>
  }) : (tensor<i1>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}
