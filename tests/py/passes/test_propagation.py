"""Propagation: places, labels from rules, the choice by cost, and the same answer every time."""

import itertools
import re
from pathlib import Path

import pytest
from hypothesis import given

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.passes.base import PassState
from dtensor.passes.cost.model import CostModel, Link
from dtensor.passes.functions import main_function
from dtensor.passes.graph import CARRY, OP, Graph, read_graph
from dtensor.passes.ops.rule import OpRule
from dtensor.passes.pipeline import Pipeline
from dtensor.passes.propagation.axis import Decided, reach_of
from dtensor.passes.propagation.labels import LabelTable, RuleLabels
from dtensor.passes.propagation.places import (
    WHOLE,
    LayoutTable,
    partial_place,
    place_kind,
    place_of,
    split_place,
)
from dtensor.passes.propagation.planned import read_planned
from dtensor.passes.propagation.reach import AxisReach
from dtensor.passes.propagation.sweep import sweep
from dtensor.passes.propagation.task import Pins, Task, planned_sub_axes, read_pins
from tests.py.dialect.strategies import layouts
from tests.py.fresh import under_hash_seeds
from tests.py.passes.run_passes import MESH, after, counted_loop, function, graph_of, parsed

ROOT = Path(__file__).resolve().parents[3]
SUM = partial_place("sum")


def rule_of_first(text: str) -> OpRule:
    with graph_of(text) as graph:
        rules = [node.rule for node in graph.nodes if node.kind == OP and node.rule is not None]
        return rules[-1]


MATMUL = function(
    "(%a: tensor<8x12xi32>, %b: tensor<12x16xi32>) -> tensor<8x16xi32>",
    """
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
        : (tensor<8x12xi32>, tensor<12x16xi32>) -> tensor<8x16xi32>
    return %0 : tensor<8x16xi32>""",
)
RESHAPE = function(
    "(%a: tensor<6x4xf32>) -> tensor<24xf32>",
    """
    %0 = stablehlo.reshape %a : (tensor<6x4xf32>) -> tensor<24xf32>
    return %0 : tensor<24xf32>""",
)
REDUCE = function(
    "(%a: tensor<8x4xf32>, %i: tensor<f32>) -> tensor<8xf32>",
    """
    %0 = stablehlo.reduce(%a init: %i) applies stablehlo.add across dimensions = [1]
        : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>""",
)
SUBTRACT = function(
    "(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32>",
    """
    %0 = stablehlo.subtract %a, %b : tensor<8xf32>
    return %0 : tensor<8xf32>""",
)
CONFLICT = function(
    """(%a: tensor<64x32xf32> {dtensor.layout = #L[{"x"}, {}]#},
        %b: tensor<64x32xf32> {dtensor.layout = #L[{}, {"x"}]#},
        %c: tensor<64x32xf32>)
        -> (tensor<64x32xf32> {dtensor.layout = #L[{}, {"x"}]#})""",
    """
    %0 = stablehlo.add %a, %c : tensor<64x32xf32>
    %1 = stablehlo.tanh %0 : tensor<64x32xf32>
    %2 = stablehlo.multiply %1, %b : tensor<64x32xf32>
    %3 = stablehlo.add %2, %a : tensor<64x32xf32>
    return %3 : tensor<64x32xf32>""",
)


# Places.


@given(layouts())
def test_a_layout_is_its_places(layout: Layout) -> None:
    sub_axes = planned_sub_axes(Pins({0: layout}), layout.mesh, {})
    places = tuple(place_of(layout, sub_axis) for sub_axis in sub_axes)
    again = LayoutTable(sub_axes, layout.mesh).layout(layout.rank, places)
    assert again.dims == layout.closed().dims
    assert tuple(place_of(again, sub_axis) for sub_axis in sub_axes) == places


def test_places_by_hand() -> None:
    mesh = Mesh([("x", 2), ("y", 4), ("z", 2)])
    text = '#dtensor.layout<@mesh, [{}, {3, "y":(1)2, "x"}], partial = {max: "z"}>'
    layout = Layout.parse(text, mesh)
    assert place_of(layout, AxisRef("y", 1, 2)) == split_place(1, 3)
    assert place_of(layout, AxisRef("y", 2, 2)) == WHOLE
    assert place_of(layout, mesh.axis("x")) == split_place(1, 6)
    assert place_of(layout, mesh.axis("z")) == partial_place("max")
    assert place_kind(partial_place("max")) == "max"


def test_axes_are_cut_where_layouts_name_parts() -> None:
    mesh = Mesh([("x", 8), ("y", 4)])
    pins = Pins({0: Layout.parse('#dtensor.layout<@mesh, [{"x":(2)2}]>', mesh)})
    assert planned_sub_axes(pins, mesh, {}) == [
        AxisRef("x", 1, 2),
        AxisRef("x", 2, 2),
        AxisRef("x", 4, 2),
        AxisRef("y", 1, 4),
    ]


# Labels derive from rules.


def test_labels_of_a_matmul() -> None:
    labels = RuleLabels(rule_of_first(MATMUL), 4)
    number = {
        name: m.factor
        for dims, names in zip(labels.rule.operands, ("ik", "kj"), strict=True)
        for m, name in zip(dims, names, strict=True)
        if m is not None
    }
    dim0, dim1 = split_place(0, 1), split_place(1, 1)
    found = {
        name: (label.ins, label.outs)
        for name in "ikj"
        if (label := labels.digit(number[name], 1)) is not None
    }
    assert found == {
        "i": ((dim0, WHOLE), (dim0,)),
        "k": ((dim1, dim0), (SUM,)),
        "j": ((WHOLE, dim1), (dim1,)),
    }
    # behind two blocks: 8 = 2 * 4 devices, but 12 is not 2 * 4 * something
    minor = labels.digit(number["i"], 2)
    assert minor is not None
    assert minor.ins == (split_place(0, 2), WHOLE)
    assert labels.digit(number["k"], 2) is None
    passes = {(p.ins, p.outs) for p in labels.passes}
    assert ((SUM, WHOLE), (SUM,)) in passes
    assert ((WHOLE, SUM), (SUM,)) in passes
    assert ((SUM, SUM), (SUM,)) not in passes


def test_a_reduction_takes_its_initial_value_in_parts() -> None:
    labels = RuleLabels(rule_of_first(REDUCE), 4)
    (label,) = labels.at(0, split_place(1, 1))
    assert (label.ins, label.outs) == ((split_place(1, 1), SUM), (SUM,))
    (label,) = labels.at(~0, split_place(0, 1))
    assert (label.ins, label.outs) == ((split_place(0, 1), WHOLE), (split_place(0, 1),))


def test_labels_of_a_reshape_are_digits() -> None:
    labels = RuleLabels(rule_of_first(RESHAPE), 2)
    merged = {
        place: label.outs[0]
        for place in (split_place(0, 1), split_place(0, 3), split_place(1, 1), split_place(1, 2))
        for label in labels.at(0, place)
    }
    assert merged == {
        split_place(0, 1): split_place(0, 1),
        split_place(0, 3): split_place(0, 3),
        split_place(1, 1): split_place(0, 6),
        split_place(1, 2): split_place(0, 12),
    }


def test_a_digit_that_straddles_dimensions_says_where_to_cut() -> None:
    labels = RuleLabels(rule_of_first(RESHAPE), 4)  # 24 = 6 * 4: four devices take 2 of the 6 rows
    assert labels.at(~0, split_place(0, 1)) == ()
    assert labels.at(~0, split_place(0, 3)) == ()  # its digit would end inside the second dimension
    assert labels.cuts == {2}


@pytest.mark.parametrize("text", [MATMUL, RESHAPE, REDUCE, SUBTRACT])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_what_is_found_by_a_place_has_that_place(text: str, n: int) -> None:
    rule = rule_of_first(text)
    labels = RuleLabels(rule, n)
    tensors = [*enumerate(rule.operands), *((~k, dims) for k, dims in enumerate(rule.results))]
    for slot, dims in tensors:
        for dim, major in itertools.product(range(len(dims)), (1, 2, 3, 4, 6)):
            place = split_place(dim, major)
            for label in labels.at(slot, place):
                assert (label.ins[slot] if slot >= 0 else label.outs[~slot]) == place
                assert label is labels.digit(label.factor, label.major)
    assert set(labels.idle.ins + labels.idle.outs) == {WHOLE}


def test_a_carried_value_has_one_place_everywhere() -> None:
    text = function("(%a: tensor<8x4xf32>) -> tensor<8x4xf32>", counted_loop())
    with graph_of(text) as graph:
        carry = [node for node in graph.nodes if node.kind == CARRY][1]
        table = LabelTable(2)
        (label,) = table.at(carry, 0, split_place(1, 1))
        assert set(label.ins + label.outs) == {split_place(1, 1)}
        assert table.at(carry, ~2, split_place(1, 1)) == (label,)


# What is given spreads.


def reach_in(graph: Graph, meshes: dict[str, Mesh], axis: str) -> AxisReach:
    mesh = meshes["mesh"]
    task = Task.of(graph, read_pins(graph, meshes), mesh, CostModel(), 1e5)
    return reach_of(task, mesh.axis(axis), Decided.nothing(graph))


def test_nodes_collect_what_leads_to_them_and_take_what_matches_the_most_bytes() -> None:
    rows, columns = (split_place(0, 1),), (split_place(1, 1),)
    with after("dtensor-import", CONFLICT) as (module, state):
        reach = reach_in(read_graph(main_function(module)), state.meshes, "x")
        found = sweep(reach)
        ops = [node for node in reach.graph.nodes if node.kind == OP]
        for node in ops:
            assert {label.outs for label in reach.labels[node.index]} == {(WHOLE,), rows, columns}
        # `a` reaches the first two; `b` and the result outnumber it at the multiplication
        assert [found[node.index].outs for node in ops] == [rows, rows, columns, columns]


def test_pinned_nodes_keep_their_labels() -> None:
    with after("dtensor-import", CONFLICT) as (module, state):
        reach = reach_in(read_graph(main_function(module)), state.meshes, "x")
        pinned = {i: label for i, label in enumerate(reach.fixed) if label is not None}
        found = sweep(reach)
        assert len(pinned) >= 3
        assert all(found[i] is label for i, label in pinned.items())


def test_parts_of_a_sum_are_passed_on_as_far_as_they_can_be() -> None:
    text = function(
        """(%a: tensor<8x12xf32> {dtensor.layout = #L[{}, {"x"}]#},
            %b: tensor<12x16xf32>) -> tensor<8x16xf32>""",
        """
        %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
            : (tensor<8x12xf32>, tensor<12x16xf32>) -> tensor<8x16xf32>
        %1 = stablehlo.negate %0 : tensor<8x16xf32>
        %2 = stablehlo.add %1, %0 : tensor<8x16xf32>
        %3 = stablehlo.tanh %2 : tensor<8x16xf32>
        return %3 : tensor<8x16xf32>""",
    )
    with after("dtensor-import", text) as (module, state):
        reach = reach_in(read_graph(main_function(module)), state.meshes, "x")
        found = sweep(reach)
        outs = [found[node.index].outs for node in reach.graph.nodes if node.kind == OP]
        assert outs == [(SUM,), (SUM,), (SUM,), (WHOLE,)]


# What the pass leaves behind.


def test_what_is_written_is_what_is_read() -> None:
    text = function(
        """(%a: tensor<8x4xf32> {dtensor.layout = #L[{"x"}, {}]#}) -> tensor<8x4xf32>""",
        counted_loop(),
    )
    with after("dtensor-import, dtensor-propagate", text) as (module, state):
        assert state.graph is not None
        assert state.planned is not None
        again = read_planned(read_graph(main_function(module)), state.meshes)
        assert again == state.planned


def test_every_layout_fits_its_tensor() -> None:
    with after("dtensor-import, dtensor-propagate", CONFLICT) as (_, state):
        graph, planned = state.graph, state.planned
        assert graph is not None
        assert planned is not None
        for node in graph.nodes:
            for values, found in (
                (node.operands, planned.operands[node.index]),
                (node.results, planned.results[node.index]),
            ):
                for value, layout in zip(values, found, strict=True):
                    assert layout.problem(graph.types[value].shape) is None


def test_fallbacks_and_unknown_loops_are_recorded() -> None:
    body = counted_loop(
        direction="NE",
        body="%y = stablehlo.custom_call @mine(%c) : (tensor<8x4xf32>) -> tensor<8x4xf32>",
    )
    text = function(
        """(%a: tensor<8x4xf32> {dtensor.layout = #L[{"x"}, {}]#}) -> tensor<8x4xf32>""", body
    )
    with after("dtensor-import, dtensor-propagate", text) as (_, state):
        (fallback,) = state.ledger.of_kind("fallback")
        assert fallback.text.startswith("stablehlo.custom_call @mine has no rule: its operands")
        assert "128 bytes per device" in fallback.text
        assert fallback.location == "test.mlir:11:14"
        assert not fallback.asked_for
        (warning,) = state.ledger.of_kind("warning")
        assert "trip count" in warning.text
        assert warning.asked_for
        assert state.ledger.unasked() == [fallback]


def test_a_move_names_what_could_be_done_instead() -> None:
    pipeline = "dtensor-import, dtensor-propagate, dtensor-insert-relayouts"
    with after(pipeline, CONFLICT) as (_, state):
        moves = [r.runner_up for r in state.ledger.of_kind("relayout")]
        assert len(moves) >= 1
        for move in moves:
            assert re.fullmatch(
                r"(argument \d|add|tanh|multiply) could (take|give) it as \[.*\], "
                r"for (as much time|[\d.]+ [nu]s more)",
                move,
            )


def test_an_axis_on_a_slow_network_is_spread_first() -> None:
    text = function(
        """(%a: tensor<8x4xf32> {dtensor.layout = #L[{"x"}, {}]#},
            %b: tensor<8x4xf32> {dtensor.layout = #L[{}, {"y"}]#}) -> tensor<8x4xf32>""",
        """
        %0 = stablehlo.add %a, %b : tensor<8x4xf32>
        return %0 : tensor<8x4xf32>""",
    )
    slow = Link(alpha=1e-6, bytes_per_second=1e9)
    orders = []
    for axis in ("x", "y"):
        with parsed(text) as module:
            state = PassState(mesh=MESH)
            state.cost = CostModel(axis_links=((axis, slow),))
            Pipeline.parse("dtensor-import, dtensor-propagate").run(module, state)
            orders.append([trail.axis for trail in state.ledger.trails])
    assert orders == [['"x"', '"y"'], ['"y"', '"x"']]


# The same answer every time.

PROGRAM = """
import sys
from tests.py.passes.run_passes import after
from tests.py.passes.test_propagation import CONFLICT
passes = "dtensor-import, dtensor-propagate, dtensor-insert-relayouts, dtensor-expand"
for _ in range(2):
    with after(passes, CONFLICT) as (module, state):
        print(module)
        print(state.ledger.to_json())
"""


@pytest.mark.long
def test_the_same_input_gives_the_same_text() -> None:
    first, second = under_hash_seeds(PROGRAM)
    assert first == second
    assert first[: len(first) // 2] == first[len(first) // 2 :]
    assert "dtensor.all_to_all" in first
