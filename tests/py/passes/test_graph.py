"""The reading of the IR into integers: nodes, values, weights and trip counts."""

import pytest

from dtensor.dialect.diagnostics import LocatedError
from dtensor.dialect.mlir import ir
from dtensor.passes import graph as graph_module
from dtensor.passes.base import PassState
from dtensor.passes.functions import main_function
from dtensor.passes.graph import (
    ARGUMENT,
    CARRY,
    CONSTRAINT,
    JOIN,
    OP,
    RESULT,
    THROUGH,
    UNKNOWN_TRIPS,
    WHOLE_USE,
    Graph,
    Node,
    read_graph,
)
from dtensor.passes.ops.rule import OpInfo, OpRule, element_bytes
from dtensor.passes.ops.table import rule_of
from dtensor.passes.program import trip_count
from tests.py.passes.run_passes import counted_loop, function, graph_of, parsed

MATRIX = "(%a: tensor<8x4xf32>) -> tensor<8x4xf32>"


def nodes_of(graph: Graph, kind: str) -> list[Node]:
    return [node for node in graph.nodes if node.kind == kind]


def trips_of(text: str) -> int | None:
    with parsed(text) as module:
        block = main_function(module).regions[0].blocks[0]
        loops = [v.operation for v in block.operations if v.operation.name == "stablehlo.while"]
        return trip_count(loops[0])


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        ("f32", 4),
        ("bf16", 2),
        ("f64", 8),
        ("i1", 1),
        ("i8", 1),
        ("ui16", 2),
        ("i4", 0.5),
        ("f8E4M3FN", 1),
        ("complex<f32>", 8),
        ("complex<f64>", 16),
    ],
)
def test_the_size_of_an_element(element: str, expected: float) -> None:
    assert element_bytes(element) == expected


def test_values_and_nodes_refer_to_each_other() -> None:
    body = """
    %0 = stablehlo.tanh %a : tensor<8x4xf32>
    %1 = stablehlo.add %0, %0 : tensor<8x4xf32>
    return %1 : tensor<8x4xf32>"""
    with graph_of(function(MATRIX, body)) as graph:
        assert [node.kind for node in graph.nodes] == [ARGUMENT, OP, OP, RESULT]
        assert [node.index for node in graph.nodes] == [0, 1, 2, 3]
        for node in graph.nodes:
            for slot, value in enumerate(node.results):
                assert (graph.producer[value], graph.producer_slot[value]) == (node.index, slot)
            for k, value in enumerate(node.operands):
                assert (node.index, k) in graph.uses[value]
        assert sum(map(len, graph.uses)) == sum(len(n.operands) for n in graph.nodes)
        tanh = graph.nodes[1].results[0]
        assert graph.uses[tanh] == [(2, 0), (2, 1)]
        assert graph.bytes(tanh) == 8 * 4 * 4


def test_equal_operations_share_one_rule() -> None:
    body = """
    %0 = stablehlo.tanh %a : tensor<8x4xf32>
    %1 = stablehlo.tanh %0 : tensor<8x4xf32>
    %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
    %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    return %3 : tensor<8x4xf32>"""
    with graph_of(function(MATRIX, body)) as graph:
        first, second, there, back = [node.rule for node in nodes_of(graph, OP)]
        assert first is second
        assert there is not back


def test_reductions_with_other_bodies_have_other_rules() -> None:
    body = """
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1]
        : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
    %1 = stablehlo.reduce(%a init: %z) applies stablehlo.maximum across dimensions = [1]
        : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
    return %0, %1 : tensor<8xf32>, tensor<8xf32>"""
    signature = "(%a: tensor<8x4xf32>) -> (tensor<8xf32>, tensor<8xf32>)"
    with graph_of(function(signature, body)) as graph:
        rules = [node.rule for node in nodes_of(graph, OP) if node.name == "stablehlo.reduce"]
        found = [factor.reduction for r in rules if r for factor in r.factors if factor.reduction]
        assert found == ["sum", "max"]


def test_an_operation_without_a_rule_has_none() -> None:
    body = """
    %0 = stablehlo.custom_call @mine(%a) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    return %0 : tensor<8x4xf32>"""
    with graph_of(function(MATRIX, body)) as graph:
        assert [node.rule for node in nodes_of(graph, OP)] == [None]


# Loops and branches.


def test_a_carried_value_is_one_node() -> None:
    with graph_of(function(MATRIX, counted_loop())) as graph:
        counter, carry = nodes_of(graph, CARRY)
        # init and yield; the arguments of condition and body, and the result
        assert len(counter.operands) == len(carry.operands) == 2
        assert len(counter.results) == len(carry.results) == 3
        init, yielded = carry.operands
        assert graph.nodes[graph.producer[init]].kind == ARGUMENT
        assert graph.nodes[graph.producer[yielded]].name == "stablehlo.tanh"
        (predicate,) = nodes_of(graph, WHOLE_USE)
        assert graph.nodes[graph.producer[predicate.operands[0]]].name == "stablehlo.compare"
        (result,) = nodes_of(graph, RESULT)
        assert result.operands == [carry.results[2]]


def test_what_is_inside_a_loop_weighs_its_iterations() -> None:
    with graph_of(function(MATRIX, counted_loop(end=6))) as graph:
        (tanh,) = [n for n in graph.nodes if n.name == "stablehlo.tanh"]
        assert tanh.weight == 6
        assert graph.weights[tanh.results[0]] == 6
        _, carry = nodes_of(graph, CARRY)
        assert [graph.weights[v] for v in carry.results] == [6, 6, 1]
        assert graph.weights[carry.operands[0]] == 1
        assert graph.unknown_trips == []


def test_nested_loops_multiply() -> None:
    inner = """
        %s2 = stablehlo.constant dense<0> : tensor<i32>
        %e2 = stablehlo.constant dense<3> : tensor<i32>
        %r2:2 = stablehlo.while(%j = %s2, %d = %c) : tensor<i32>, tensor<8x4xf32>
          cond {
            %q = stablehlo.compare LT, %j, %e2 : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %q : tensor<i1>
          } do {
            %t = stablehlo.tanh %d : tensor<8x4xf32>
            %m = stablehlo.add %j, %step : tensor<i32>
            stablehlo.return %m, %t : tensor<i32>, tensor<8x4xf32>
          }
        %y = stablehlo.negate %r2#1 : tensor<8x4xf32>"""
    with graph_of(function(MATRIX, counted_loop(body=inner))) as graph:
        weights = {n.name: n.weight for n in nodes_of(graph, OP)}
        assert weights["stablehlo.tanh"] == 15
        assert weights["stablehlo.negate"] == 5


def test_a_loop_of_unknown_length_is_planned_for_ten_and_noted() -> None:
    with graph_of(function(MATRIX, counted_loop(direction="NE"))) as graph:
        (tanh,) = [n for n in graph.nodes if n.name == "stablehlo.tanh"]
        assert tanh.weight == UNKNOWN_TRIPS
        assert [op.name for op in graph.unknown_trips] == ["stablehlo.while"]


@pytest.mark.parametrize(
    ("start", "end", "step", "expected"),
    [(0, 5, 1, 5), (3, 5, 1, 2), (0, 5, 2, 3), (0, 6, 2, 3), (5, 5, 1, 0), (9, 5, 1, 0)],
)
def test_trip_counts(start: int, end: int, step: int, expected: int) -> None:
    assert trips_of(function(MATRIX, counted_loop(start, end, step))) == expected


@pytest.mark.parametrize(("direction", "step"), [("LE", 1), ("GT", 1), ("NE", 1), ("LT", -1)])
def test_loops_whose_trip_count_is_not_known(direction: str, step: int) -> None:
    loop = counted_loop(step=step, direction=direction)
    assert trips_of(function(MATRIX, loop)) is None


def test_a_limit_that_is_carried_along() -> None:
    body = """
    %start = stablehlo.constant dense<0> : tensor<i32>
    %end = stablehlo.constant dense<7> : tensor<i32>
    %step = stablehlo.constant dense<1> : tensor<i32>
    %r:3 = stablehlo.while(%i = %start, %l = %end, %c = %a)
        : tensor<i32>, tensor<i32>, tensor<8x4xf32>
      cond {
        %p = stablehlo.compare LT, %i, %l : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      } do {
        %n = stablehlo.add %step, %i : tensor<i32>
        stablehlo.return %n, LIMIT, %c : tensor<i32>, tensor<i32>, tensor<8x4xf32>
      }
    return %r#2 : tensor<8x4xf32>"""
    assert trips_of(function(MATRIX, body.replace("LIMIT", "%l"))) == 7
    assert trips_of(function(MATRIX, body.replace("LIMIT", "%n"))) is None


def test_branches_join_per_result() -> None:
    body = """
    %0 = "stablehlo.if"(%p) ({
      %1 = stablehlo.tanh %a : tensor<8x4xf32>
      stablehlo.return %1 : tensor<8x4xf32>
    }, {
      stablehlo.return %a : tensor<8x4xf32>
    }) : (tensor<i1>) -> tensor<8x4xf32>
    return %0 : tensor<8x4xf32>"""
    signature = "(%p: tensor<i1>, %a: tensor<8x4xf32>) -> tensor<8x4xf32>"
    with graph_of(function(signature, body)) as graph:
        (join,) = nodes_of(graph, JOIN)
        names = [graph.nodes[graph.producer[v]].name for v in join.operands]
        assert names == ["stablehlo.tanh", "argument"]
        (index,) = nodes_of(graph, WHOLE_USE)
        assert graph.nodes[graph.producer[index.operands[0]]].kind == ARGUMENT


def test_barriers_and_constraints_have_their_own_nodes() -> None:
    body = """
    %0:2 = stablehlo.optimization_barrier %a, %a : tensor<8x4xf32>, tensor<8x4xf32>
    %1 = "dtensor.relayout"(%0#1) {layout = #L[{"x"}, {}]#} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    return %1 : tensor<8x4xf32>"""
    mesh = '"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()\n'
    with graph_of(mesh + function(MATRIX, body)) as graph:
        assert [len(n.operands) for n in nodes_of(graph, THROUGH)] == [1, 1]
        assert [n.slot for n in nodes_of(graph, THROUGH)] == [0, 1]
        (constraint,) = nodes_of(graph, CONSTRAINT)
        assert constraint.operands == nodes_of(graph, THROUGH)[1].results


def test_rules_are_known_when_a_function_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
    %0 = stablehlo.tanh %a : tensor<8x4xf32>
    %1 = stablehlo.slice %0 [2:6, 0:4] : (tensor<8x4xf32>) -> tensor<4x4xf32>
    %2 = stablehlo.concatenate %1, %1, dim = 0
        : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    return %2 : tensor<8x4xf32>"""
    asked: list[str] = []

    def counted(op: OpInfo) -> OpRule | None:
        asked.append(op.name)
        return rule_of(op)

    monkeypatch.setattr(graph_module, "rule_of", counted)
    with parsed(function(MATRIX, body)) as module:
        state, main = PassState(), main_function(module)
        first = state.graph_of(main)
        block = main.regions[0].blocks[0]
        for view in list(block.operations)[:3]:  # which are no longer there when they are read
            copy = view.operation.clone(ip=ir.InsertionPoint(view))
            for old, new in zip(view.operation.results, copy.operation.results, strict=True):
                old.replace_all_uses_with(new)
        for view in list(block.operations)[-2:0:-2]:
            view.operation.erase()
        state.forget_ir()
        again = state.graph_of(main)
        assert len(asked) == 3
        for old_node, node in zip(first.nodes, again.nodes, strict=True):
            assert node.rule == old_node.rule
            for rule in (node.rule, *(node.rule.others if node.rule else ())):
                assert rule is None or (rule.op and rule.op.operation == node.operation)


def test_a_dynamic_dimension_is_refused() -> None:
    text = "func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {\n  return %a : tensor<?xf32>\n}"
    with (
        parsed(text) as module,
        pytest.raises(LocatedError, match=r"test.mlir:1:1: tensor<\?xf32> has a dynamic dimension"),
    ):
        read_graph(main_function(module))


def test_tokens_are_values_without_size() -> None:
    token = "!stablehlo.token"
    text = function(f"(%a: {token}) -> {token}", f"return %a : {token}")
    with graph_of(text) as graph:
        assert graph.types[0].bytes == 0
        assert isinstance(graph.values[0], ir.BlockArgument)
