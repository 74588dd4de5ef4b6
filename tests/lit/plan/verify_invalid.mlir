// RUN: dtensor-opt %s --dtensor-verify-plan --split-input-file --verify-diagnostics

// The exponential of a whole value is no part of a sum: an all_reduce would double it.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) -> (tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  // expected-error @below {{'stablehlo.exponential' has operand 0 whole, result 0 partial (sum) over axis 'x' of 2 devices, but from such operands its rule derives result 0 whole; let dtensor-propagate choose the layouts, or move the value by a dtensor.relayout}}
  %0 = stablehlo.exponential %a {dtensor.results = [#dtensor.layout<@mesh, [{}, {}], partial = {sum: "x"}>]} : tensor<8x12xf32>
  %1 = "dtensor.relayout"(%0) {layout = #dtensor.layout<@mesh, [{}, {}]>, dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]} : (tensor<8x12xf32>) -> tensor<8x12xf32>
  return %1 : tensor<8x12xf32>
}

// -----

// A sum over what an axis splits is a part on each device.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>}, %b: tensor<12x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}, {}]>}) -> (tensor<8x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  // expected-error @below {{'stablehlo.dot_general' has operand 0 split at dimension 1, operand 1 split at dimension 0, result 0 whole over axis 'y' of 4 devices, but from such operands its rule derives result 0 partial (sum); let dtensor-propagate choose the layouts, or move the value by a dtensor.relayout}}
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]} : (tensor<8x12xf32>, tensor<12x6xf32>) -> tensor<8x6xf32>
  return %0 : tensor<8x6xf32>
}

// -----

// Both operands of a product must be split alike.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>}, %b: tensor<12x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) -> (tensor<8x6xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  // expected-error @below {{'stablehlo.dot_general' has operand 0 split at dimension 1, operand 1 whole, result 0 partial (sum) over axis 'y' of 4 devices, but for such results its rule derives operand 0 split at dimension 1, operand 1 split at dimension 0; let dtensor-propagate choose the layouts, or move the value by a dtensor.relayout}}
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {dtensor.results = [#dtensor.layout<@mesh, [{}, {}], partial = {sum: "y"}>]} : (tensor<8x12xf32>, tensor<12x6xf32>) -> tensor<8x6xf32>
  %1 = "dtensor.relayout"(%0) {layout = #dtensor.layout<@mesh, [{}, {}]>, dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]} : (tensor<8x6xf32>) -> tensor<8x6xf32>
  return %1 : tensor<8x6xf32>
}

// -----

// A dimension does not move to another one by itself.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"x"}]>}) {
  // expected-error @below {{'stablehlo.tanh' has operand 0 split at dimension 0, result 0 split at dimension 1 over axis 'x' of 2 devices, but from such operands its rule derives result 0 split at dimension 0; let dtensor-propagate choose the layouts, or move the value by a dtensor.relayout}}
  %0 = stablehlo.tanh %a {dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}]>]} : tensor<8x12xf32>
  return %0 : tensor<8x12xf32>
}

// -----

// A part of a sum and a whole value cannot be added.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}, %b: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {}]>}) {
  %0 = "dtensor.relayout"(%a) {layout = #dtensor.layout<@mesh, [{}, {}], partial = {sum: "x"}>, dtensor.results = [#dtensor.layout<@mesh, [{}, {}], partial = {sum: "x"}>]} : (tensor<8x12xf32>) -> tensor<8x12xf32>
  // expected-error @below {{'stablehlo.add' has operand 0 partial (sum), operand 1 whole, result 0 partial (sum) over axis 'x' of 2 devices, but for such results its rule derives operand 0 partial (sum), operand 1 partial (sum); let dtensor-propagate choose the layouts, or move the value by a dtensor.relayout}}
  %1 = stablehlo.add %0, %a {dtensor.results = [#dtensor.layout<@mesh, [{}, {}], partial = {sum: "x"}>]} : tensor<8x12xf32>
  %2 = "dtensor.relayout"(%1) {layout = #dtensor.layout<@mesh, [{}, {}]>, dtensor.results = [#dtensor.layout<@mesh, [{}, {}]>]} : (tensor<8x12xf32>) -> tensor<8x12xf32>
  return %2 : tensor<8x12xf32>
}

// -----

// Sums and maxima of parts do not mix.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%a: tensor<12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}) -> (tensor<12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}) {
  %0 = "dtensor.relayout"(%a) {layout = #dtensor.layout<@mesh, [{}], partial = {sum: "x", max: "y"}>, dtensor.results = [#dtensor.layout<@mesh, [{}], partial = {sum: "x", max: "y"}>]} : (tensor<12xf32>) -> tensor<12xf32>
  // expected-error @below {{'stablehlo.maximum' has a value that is partial in several ways, [{}] partial {sum: "x", max: "y"}; let dtensor-propagate choose the layouts, or move the value by a dtensor.relayout}}
  %1 = stablehlo.maximum %0, %0 {dtensor.results = [#dtensor.layout<@mesh, [{}], partial = {sum: "x", max: "y"}>]} : tensor<12xf32>
  %2 = "dtensor.relayout"(%1) {layout = #dtensor.layout<@mesh, [{}]>, dtensor.results = [#dtensor.layout<@mesh, [{}]>]} : (tensor<12xf32>) -> tensor<12xf32>
  return %2 : tensor<12xf32>
}

// -----

// What has no rule sees everything whole.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // expected-error @below {{'stablehlo.custom_call' has no rule, but is laid out [{"x"}, {}] -> [{"x"}, {}]: all must be whole; let dtensor-propagate choose the layouts, or move the value by a dtensor.relayout}}
  %0 = stablehlo.custom_call @mine(%a) {dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<8x12xf32>) -> tensor<8x12xf32>
  return %0 : tensor<8x12xf32>
}

// -----

// A loop keeps the layout of what it carries: its initial value

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>}) {
  %n = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, []>]} dense<3> : tensor<i32>
  // expected-error @below {{operand 1 of 'stablehlo.while' is [{"x"}, {}], but [{}, {"y"}] is passed on; insert a dtensor.relayout before it}}
  %r:2 = stablehlo.while(%i = %n, %c = %a) : tensor<i32>, tensor<8x12xf32> attributes {dtensor.results = [#dtensor.layout<@mesh, []>, #dtensor.layout<@mesh, [{}, {"y"}]>]}
    cond {
      %p = stablehlo.compare LT, %i, %n {dtensor.results = [#dtensor.layout<@mesh, []>]} : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      stablehlo.return %i, %c : tensor<i32>, tensor<8x12xf32>
    }
  return %r#1 : tensor<8x12xf32>
}

// -----

// and what its body passes on.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  %n = stablehlo.constant {dtensor.results = [#dtensor.layout<@mesh, []>]} dense<3> : tensor<i32>
  %r:2 = stablehlo.while(%i = %n, %c = %a) : tensor<i32>, tensor<8x12xf32> attributes {dtensor.results = [#dtensor.layout<@mesh, []>, #dtensor.layout<@mesh, [{"x"}, {}]>]}
    cond {
      %p = stablehlo.compare LT, %i, %n {dtensor.results = [#dtensor.layout<@mesh, []>]} : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %0 = "dtensor.relayout"(%c) {layout = #dtensor.layout<@mesh, [{}, {"y"}]>, dtensor.results = [#dtensor.layout<@mesh, [{}, {"y"}]>]} : (tensor<8x12xf32>) -> tensor<8x12xf32>
      // expected-error @below {{operand 1 of 'stablehlo.return' is [{}, {"y"}], but [{"x"}, {}] is passed on; insert a dtensor.relayout before it}}
      stablehlo.return %i, %0 : tensor<i32>, tensor<8x12xf32>
    }
  return %r#1 : tensor<8x12xf32>
}

// -----

// Every branch passes on the layout of the result.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %p: tensor<i1> {dtensor.layout = #dtensor.layout<@mesh, []>}) -> (tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  %0 = "dtensor.relayout"(%a) {layout = #dtensor.layout<@mesh, [{}, {"y"}]>, dtensor.results = [#dtensor.layout<@mesh, [{}, {"y"}]>]} : (tensor<8x12xf32>) -> tensor<8x12xf32>
  %1 = "stablehlo.if"(%p) ({
    stablehlo.return %a : tensor<8x12xf32>
  }, {
    // expected-error @below {{operand 0 of 'stablehlo.return' is [{}, {"y"}], but [{"x"}, {}] is passed on; insert a dtensor.relayout before it}}
    stablehlo.return %0 : tensor<8x12xf32>
  }) {dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<i1>) -> tensor<8x12xf32>
  return %1 : tensor<8x12xf32>
}

// -----

// Every device must see the same predicate.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}, %p: tensor<i1> {dtensor.layout = #dtensor.layout<@mesh, []>}) -> (tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  %0 = "dtensor.relayout"(%p) {layout = #dtensor.layout<@mesh, [], partial = {or: "x"}>, dtensor.results = [#dtensor.layout<@mesh, [], partial = {or: "x"}>]} : (tensor<i1>) -> tensor<i1>
  // expected-error @below {{operand 0 of 'stablehlo.if' is [] partial {or: "x"}, but [] is passed on; insert a dtensor.relayout before it}}
  %1 = "stablehlo.if"(%0) ({
    stablehlo.return %a : tensor<8x12xf32>
  }, {
    stablehlo.return %a : tensor<8x12xf32>
  }) {dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<i1>) -> tensor<8x12xf32>
  return %1 : tensor<8x12xf32>
}

// -----

// A result leaves in the layout that the function says.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>}) {
  %0 = stablehlo.exponential %a {dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : tensor<8x12xf32>
  // expected-error @below {{operand 0 of 'func.return' is [{"x"}, {}], but [{}, {"y"}] is passed on; insert a dtensor.relayout before it}}
  return %0 : tensor<8x12xf32>
}

// -----

// An axis cannot split one factor twice, over two operands.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}]>}) -> (tensor<12x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}]>}) {
  // expected-error @below {{'stablehlo.transpose' has operand 0 split at dimension 0, result 0 split at dimension 0 over axis 'x' of 2 devices, but from such operands its rule derives result 0 split at dimension 1; let dtensor-propagate choose the layouts, or move the value by a dtensor.relayout}}
  %0 = stablehlo.transpose %a, dims = [1, 0] {dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {"y"}]>]} : (tensor<8x12xf32>) -> tensor<12x8xf32>
  return %0 : tensor<12x8xf32>
}

// -----

// Before relayouts are inserted, a constraint must get what it asks for.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // expected-error @below {{the constraint asks for [{}, {"y"}], the plan has [{"x"}, {}]; let dtensor-propagate choose the layouts, or change the constraint}}
  %0 = "dtensor.relayout"(%a) {dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>], layout = #dtensor.layout<@mesh, [{}, {"y"}]>} : (tensor<8x12xf32>) -> tensor<8x12xf32>
  return %0 : tensor<8x12xf32>
}

// -----

// Before relayouts are inserted, operations say what they want to read.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // expected-error @below {{'stablehlo.tanh' has operand 0 whole, result 0 partial (sum) over axis 'x' of 2 devices, but from such operands its rule derives result 0 whole; let dtensor-propagate choose the layouts, or move the value by a dtensor.relayout}}
  %0 = stablehlo.tanh %a {dtensor.operands = [#dtensor.layout<@mesh, [{}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {}], partial = {sum: "x"}>]} : tensor<8x12xf32>
  return %0 : tensor<8x12xf32>
}

// -----

// A result of a constraint is what it reads, in the same layout.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // expected-error @below {{'dtensor.relayout' reads [{"x"}, {}] and gives [{}, {"y"}], but keeps layouts as they are; let dtensor-propagate choose the layouts, or move the value by a dtensor.relayout}}
  %0 = "dtensor.relayout"(%a) {dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {"y"}]>], layout = #dtensor.layout<@mesh, [{}, {"y"}]>} : (tensor<8x12xf32>) -> tensor<8x12xf32>
  return %0 : tensor<8x12xf32>
}

// -----

// A plan names what each operation reads, and what it makes.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  %0 = stablehlo.tanh %a {dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : tensor<8x12xf32>
  // expected-error @below {{'stablehlo.exponential' has no dtensor.operands; run dtensor-propagate before}}
  %1 = stablehlo.exponential %0 {dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : tensor<8x12xf32>
  return %1 : tensor<8x12xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  // expected-error @below {{'stablehlo.tanh' has no dtensor.results; run dtensor-propagate and dtensor-insert-relayouts before}}
  %0 = stablehlo.tanh %a : tensor<8x12xf32>
  return %0 : tensor<8x12xf32>
}

// -----

// The arguments and the results have layouts,

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// expected-error @below {{result 0 has no dtensor.layout; run dtensor-propagate before}}
func.func @main(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> tensor<8x12xf32> {
  return %a : tensor<8x12xf32>
}

// -----

// which divide them, since dtensor-pad-uneven has run.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

// expected-error @below {{argument 0: dimension 0 has 10 elements, not divisible by the 4 devices of axes ['y']; pad it to 12, or leave it whole}}
func.func @main(%a: tensor<10xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>}) -> (tensor<10xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"y"}]>}) {
  return %a : tensor<10xf32>
}

// -----

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%a: tensor<10xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}) -> (tensor<10xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}]>}) {
  // expected-error @below {{'dtensor.relayout': dimension 0 has 10 elements, not divisible by the 4 devices of axes ['y']; pad it to 12, or leave it whole}}
  %0 = "dtensor.relayout"(%a) {layout = #dtensor.layout<@mesh, [{"y"}]>} : (tensor<10xf32>) -> tensor<10xf32>
  %1 = "dtensor.relayout"(%0) {layout = #dtensor.layout<@mesh, [{}]>} : (tensor<10xf32>) -> tensor<10xf32>
  return %1 : tensor<10xf32>
}

// -----

// A plan is for a mesh,

// expected-error @below {{no mesh: give the module a dtensor.mesh, or pass --mesh x=2,y=4 (in Python mesh=)}}
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}

// -----

// and speaks of whole values.

// expected-error @below {{the module is expanded already; verify the plan before}}
module attributes {dtensor.local} {
  "dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

  func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
    return %a : tensor<8xf32>
  }
}

// -----

// A region over shards reads what it says,

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  %0 = stablehlo.tanh %a {dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : tensor<8x12xf32>
  // expected-error @below {{the manual region says [{"x"}, {}], the plan has [{}, {"x"}]; let dtensor-propagate choose the layouts, or move the value by a dtensor.relayout}}
  %1 = "dtensor.manual"(%0) ({
  ^bb0(%s: tensor<4x12xf32>):
    stablehlo.return %s : tensor<4x12xf32>
  }) {in_layouts = [#dtensor.layout<@mesh, [{"x"}, {}]>], out_layouts = [#dtensor.layout<@mesh, [{"x"}, {}]>], free = [],
      dtensor.operands = [#dtensor.layout<@mesh, [{}, {"x"}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<8x12xf32>) -> tensor<8x12xf32>
  return %1 : tensor<8x12xf32>
}

// -----

// and nothing in it is laid out over axes that are manual.

"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=4]>} : () -> ()

func.func @main(%a: tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) -> (tensor<8x12xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>}) {
  %0 = stablehlo.tanh %a {dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : tensor<8x12xf32>
  %1 = "dtensor.manual"(%0) ({
  ^bb0(%s: tensor<4x12xf32>):
    // expected-error @below {{'stablehlo.abs' is [{}, {"x"}], but x is manual here; let dtensor-propagate choose the layouts, or move the value by a dtensor.relayout}}
    %t = stablehlo.abs %s {dtensor.operands = [#dtensor.layout<@mesh, [{}, {"x"}]>], dtensor.results = [#dtensor.layout<@mesh, [{}, {"x"}]>]} : tensor<4x12xf32>
    stablehlo.return %t : tensor<4x12xf32>
  }) {in_layouts = [#dtensor.layout<@mesh, [{"x"}, {}]>], out_layouts = [#dtensor.layout<@mesh, [{"x"}, {}]>], free = ["y"],
      dtensor.operands = [#dtensor.layout<@mesh, [{"x"}, {}]>], dtensor.results = [#dtensor.layout<@mesh, [{"x"}, {}]>]} : (tensor<8x12xf32>) -> tensor<8x12xf32>
  return %1 : tensor<8x12xf32>
}
