"""Expanded programs by numbers: loops, branches and reductions of shards against the whole."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.context import make_context
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from tests.py.passes.rule_shards import Call, expanded_function, function_of, run_calls

MESH = Mesh({"x": 2, "y": 3})

PROGRAM = """
#all = #dtensor.layout<@mesh, []>
#part = #dtensor.layout<@mesh, [], partial = {sum: "x"}>
#xy = #dtensor.layout<@mesh, [{"x"}, {"y"}]>
#y_part = #dtensor.layout<@mesh, [{"y"}], partial = {sum: "x"}>
func.func private @main(
    %a: tensor<4x12xf32> {dtensor.layout = #xy}, %k: tensor<i32> {dtensor.layout = #all})
    -> (tensor<4x12xf32> {dtensor.layout = #xy}, tensor<4x6xf32> {dtensor.layout = #xy},
        tensor<12xf32> {dtensor.layout = #y_part}) {
  %zero = stablehlo.constant {dtensor.results = [#all]} dense<0> : tensor<i32>
  %part = stablehlo.constant {dtensor.results = [#part]} dense<0.0> : tensor<f32>
  %i = "stablehlo.iota"() {iota_dimension = 1 : i64, dtensor.results = [#xy]}
    : () -> tensor<4x12xf32>
  %0:2 = stablehlo.while(%n = %zero, %c = %a) : tensor<i32>, tensor<4x12xf32>
    attributes {dtensor.results = [#all, #xy]}
    cond {
      %three = stablehlo.constant {dtensor.results = [#all]} dense<3> : tensor<i32>
      %1 = "stablehlo.compare"(%n, %three) {
        comparison_direction = #stablehlo<comparison_direction LT>, dtensor.results = [#all]
      } : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %one = stablehlo.constant {dtensor.results = [#all]} dense<1> : tensor<i32>
      %1 = stablehlo.add %n, %one {dtensor.results = [#all]} : tensor<i32>
      %2 = "stablehlo.case"(%k) ({
        %3 = stablehlo.add %c, %i {dtensor.results = [#xy]} : tensor<4x12xf32>
        stablehlo.return %3 : tensor<4x12xf32>
      }, {
        %3 = "stablehlo.iota"() {iota_dimension = 0 : i64, dtensor.results = [#xy]}
          : () -> tensor<4x12xf32>
        %4 = stablehlo.subtract %c, %3 {dtensor.results = [#xy]} : tensor<4x12xf32>
        stablehlo.return %4 : tensor<4x12xf32>
      }) {dtensor.results = [#xy]} : (tensor<i32>) -> tensor<4x12xf32>
      stablehlo.return %1, %2 : tensor<i32>, tensor<4x12xf32>
    }
  %r = "stablehlo.reduce"(%0#1, %part) ({
  ^bb0(%u: tensor<f32>, %v: tensor<f32>):
    %1 = stablehlo.add %u, %v : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {dimensions = array<i64: 0>, dtensor.results = [#y_part]}
    : (tensor<4x12xf32>, tensor<f32>) -> tensor<12xf32>
  %s = stablehlo.slice %0#1 [0:4, 0:12:2] {dtensor.results = [#xy]}
    : (tensor<4x12xf32>) -> tensor<4x6xf32>
  return %0#1, %s, %r : tensor<4x12xf32>, tensor<4x6xf32>, tensor<12xf32>
}
"""


def without_layouts(name: str) -> str:
    """The program on one device."""
    module = ir.Module.parse(PROGRAM)
    function = function_of(module)
    for key in ("arg_attrs", "res_attrs"):
        del function.attributes[key]
    function.attributes["sym_name"] = ir.StringAttr.get(name)

    def drop(op: ir.Operation) -> ir.WalkResult:
        if "dtensor.results" in op.attributes:
            del op.attributes["dtensor.results"]
        return ir.WalkResult.ADVANCE

    function.walk(drop)
    return str(function)


def coordinate(axes: tuple[AxisRef, ...], at: dict[str, int]) -> Any:
    number = 0
    for axis in axes:
        number = number * axis.size + at[axis.name]
    return np.array(number, np.int32)


def test_a_program_with_a_loop_branches_and_a_partial_result() -> None:
    rng = np.random.default_rng(3)
    whole = rng.integers(-4, 5, (4, 12)).astype(np.float32)
    with make_context(), ir.Location.unknown():
        text, asked = expanded_function(ir.Module.parse(PROGRAM), MESH, "shard")
        calls = []
        for branch in (0, 1):
            k = np.array(branch, np.int32)
            calls.append(Call("whole", [whole, k]))
            for x, y in itertools.product(range(2), range(3)):
                own = whole[2 * x : 2 * x + 2, 4 * y : 4 * y + 4]
                at = {"x": x, "y": y}
                calls.append(Call("shard", [own, k, *(coordinate(axes, at) for axes in asked)]))
        run_calls({"whole": without_layouts("whole"), "shard": text}, calls)
    for branch in (0, 1):
        reference, *shards = calls[7 * branch : 7 * branch + 7]
        final, even, column_sums = reference.outputs
        columns = [shard.outputs[2] for shard in shards]
        for n, (x, y) in enumerate(itertools.product(range(2), range(3))):
            rows = slice(2 * x, 2 * x + 2)
            np.testing.assert_array_equal(shards[n].outputs[0], final[rows, 4 * y : 4 * y + 4])
            np.testing.assert_array_equal(shards[n].outputs[1], even[rows, 2 * y : 2 * y + 2])
            columns_here = slice(4 * y, 4 * y + 4)
            np.testing.assert_array_equal(columns[y] + columns[3 + y], column_sums[columns_here])
