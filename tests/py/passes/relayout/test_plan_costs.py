"""What relayout plans cost: known best plans, and never more than gathering what differs."""

import itertools
import random

import pytest

from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.passes.cost.model import CostModel, Link
from dtensor.passes.relayout.search import plan, steps_seconds
from dtensor.passes.relayout.steps import RelayoutStep, wire_bytes
from tests.py.passes.relayout.test_plan_runs import layouts

MESH = Mesh([("x", 2), ("y", 4)])
MESH_6 = Mesh([("x", 2), ("y", 3)])
SHAPE = (48, 96)
BYTES = 48 * 96 * 4  # of the whole tensor


def parse(text: str, mesh: Mesh = MESH) -> Layout:
    return Layout.parse(f"#dtensor.layout<@mesh, {text}>", mesh)


def kinds(steps: tuple[RelayoutStep, ...]) -> list[str]:
    return [step.kind for step in steps]


@pytest.mark.parametrize(
    ("before", "after", "fraction", "names"),
    [
        ('[{"x"}, {}]', '[{"x"}, {}]', 0, []),
        ("[{}, {}]", '[{"x"}, {"y"}]', 0, ["slice", "slice"]),
        ("[{}, {}]", '[{"x", "y"}, {}]', 0, ["slice"]),
        ('[{"y"}, {}]', "[{}, {}]", 3 / 4, ["gather"]),
        ('[{"x", "y"}, {}]', "[{}, {}]", 7 / 8, ["gather"]),
        ('[{"x"}, {}]', '[{}, {"x"}]', 1 / 4, ["all_to_all"]),
        ('[{"x", "y"}, {}]', '[{}, {"x", "y"}]', 7 / 64, ["all_to_all"]),
        ('[{"x", "y"}, {}]', '[{}, {"y", "x"}]', 7 / 64, ["all_to_all"]),
        ('[{"x", "y"}, {}]', '[{"x"}, {"y"}]', 3 / 32, ["all_to_all"]),
        ('[{"x", "y"}, {}]', '[{"y", "x"}, {}]', 1 / 8, ["permute"]),
        ('[{"y"}, {}]', '[{"x", "y"}, {}]', 1 / 8, ["slice", "permute"]),
        ('[{"x", "y"}, {}]', '[{"y"}, {}]', 1 / 4, ["permute", "gather"]),
        # The major half of y trades places with x; its minor half follows by an all_to_all.
        ('[{"x"}, {"y"}]', '[{"y"}, {"x"}]', 1 / 16 + 1 / 8, ["all_to_all", "permute"]),
        ('[{2, "y"}, {}]', '[{}, {2, "y"}]', 3 / 16, ["all_to_all"]),
        # Each device lacks two of its three pieces, which three others have.
        ('[{3, "y"}, {}]', '[{"y"}, {}]', 1 / 6, ["match"]),
        ('[{"x", 3, "y"}, {}]', '[{"x", "y"}, {}]', 1 / 12, ["match"]),
        ('[{}, {}], partial = {sum: "y"}', "[{}, {}]", 3 / 2, ["reduce"]),
        ('[{}, {}], partial = {sum: ("x", "y")}', "[{}, {}]", 7 / 4, ["reduce"]),
        ('[{}, {}], partial = {sum: "y"}', '[{"y"}, {}]', 3 / 4, ["reduce_scatter"]),
        ('[{}, {}], partial = {sum: ("x", "y")}', '[{"x", "y"}, {}]', 7 / 8, ["reduce_scatter"]),
        (
            '[{}, {}], partial = {sum: ("x", "y")}',
            '[{"y"}, {}]',
            3 / 4 + 1 / 4,
            ["reduce_scatter", "reduce"],
        ),
        ('[{}, {}], partial = {sum: "x"}', '[{"y"}, {}]', 1 / 4, ["slice", "reduce"]),
        # The sum is scattered behind y first: half as much is permuted.
        (
            '[{"y"}, {}], partial = {sum: "x"}',
            '[{"x", "y"}, {}]',
            1 / 8 + 1 / 8,
            ["reduce_scatter", "permute"],
        ),
        ('[{"x"}, {}], partial = {sum: "y"}', "[{}, {}]", 3 / 4 + 1 / 2, ["reduce", "gather"]),
        ("[{}, {}]", '[{}, {}], partial = {sum: "x"}', 0, ["mask"]),
        ('[{"x"}, {}]', '[{}, {}], partial = {sum: "x"}', 0, ["spread"]),
    ],
)
def test_known_best_plans(before: str, after: str, fraction: float, names: list[str]) -> None:
    steps = plan(parse(before), parse(after), SHAPE, 4)
    assert kinds(steps) == names
    assert sum(step.wire_bytes for step in steps) == pytest.approx(fraction * BYTES)


@pytest.mark.parametrize(
    ("before", "after", "fraction"),
    [
        ('[{"x", "y"}, {}]', '[{"y", "x"}, {}]', 1 / 6),
        ('[{"x", "y"}, {}]', '[{"y"}, {}]', 1 / 6 + 1 / 6),
        ('[{"y"}, {}]', '[{"x", "y"}, {}]', 1 / 6),
    ],
)
def test_axes_without_common_parts_trade_places(before: str, after: str, fraction: float) -> None:
    steps = plan(parse(before, MESH_6), parse(after, MESH_6), SHAPE, 4)
    assert sum(step.wire_bytes for step in steps) == pytest.approx(fraction * BYTES)


def test_an_axis_gives_way_to_an_equal_one_by_one_permute() -> None:
    mesh = Mesh([("x", 4), ("y", 4)])
    steps = plan(parse('[{"x"}, {}]', mesh), parse('[{"y"}, {}]', mesh), SHAPE, 4)
    assert kinds(steps) == ["permute"]
    assert [a.name for a in steps[0].axes] == ["x", "y"]
    assert [a.name for a in steps[0].targets] == ["y", "x"]


def test_parts_that_do_not_divide_each_other_are_taken_out_and_put_in_again() -> None:
    mesh = Mesh([("z", 6)])
    before, after = parse('[{"z":(1)2}, {}]', mesh), parse('[{"z":(1)3}, {}]', mesh)
    steps = plan(before, after, SHAPE, 4)
    assert kinds(steps) == ["gather", "slice"]
    assert steps[-1].result == after


def test_a_slow_axis_is_reduced_after_the_fast_one_has_scattered() -> None:
    """A joint all_reduce would run at the slow network's pace throughout."""
    slow = CostModel(axis_links=(("x", Link(1e-8, 1e8)),))
    steps = plan(parse('[{}, {}], partial = {sum: ("x", "y")}'), parse("[{}, {}]"), SHAPE, 4, slow)
    assert kinds(steps) == ["reduce", "reduce"]
    joint = plan(parse('[{}, {}], partial = {sum: ("x", "y")}'), parse("[{}, {}]"), SHAPE, 4)
    assert steps_seconds(steps, slow) < steps_seconds(joint, slow)


def _gather_then_slice(before: Layout, after: Layout, shape: tuple[int, ...]) -> float:
    """Wire bytes of the plain way: reduce everything, gather whole, slice."""
    middle = Layout.replicated(before.mesh, before.rank)
    return wire_bytes((*plan(before, middle, shape, 4), *plan(middle, after, shape, 4)))


def test_no_plan_costs_more_than_gathering_whole_and_slicing() -> None:
    chosen = random.Random(7)
    every = layouts("sum")
    shape = (64, 192)
    for _ in range(800):
        before, after = chosen.choice(every), chosen.choice(every)
        if set(before.partial_axes) & set(after.partial_axes):
            continue
        steps = plan(before, after, shape, 4)
        wire = sum(step.wire_bytes for step in steps)
        assert wire <= _gather_then_slice(before, after, shape) + 1e-6, f"{before} to {after}"
        assert not steps or steps[-1].result == after


def test_only_axes_that_must_go_are_gathered() -> None:
    steps = plan(parse('[{"x"}, {"y"}]'), parse('[{"x"}, {}]'), SHAPE, 4)
    assert kinds(steps) == ["gather"]
    assert [axis.name for axis in steps[0].axes] == ["y"]
    assert steps[0].wire_bytes == BYTES / 2 * 3 / 4


def test_plans_are_the_same_object_when_asked_again() -> None:
    first = plan(parse('[{"x"}, {}]'), parse('[{}, {"x"}]'), SHAPE, 4)
    assert plan(parse('[{"x"}, {}]'), parse('[{}, {"x"}]'), list(SHAPE), 4) is first


def test_a_tensor_of_no_elements_moves_too() -> None:
    steps = plan(parse('[{"x"}, {}]'), parse('[{}, {"x"}]'), (0, 96), 4)
    assert steps[-1].result == parse('[{}, {"x"}]')
    assert sum(step.wire_bytes for step in steps) == 0


def test_steps_say_whether_they_communicate() -> None:
    for before, after in itertools.permutations(('[{"x"}, {}]', "[{}, {}]", '[{}, {"y"}]'), 2):
        for step in plan(parse(before), parse(after), SHAPE, 4):
            assert step.is_local == (step.wire_bytes == 0)
            assert step.kind in ("slice", "gather", "all_to_all", "permute", "reduce")


def test_links_can_differ_by_axis() -> None:
    cost = CostModel(axis_links=(("x", Link(1.0, 10.0)),))
    assert cost.seconds(10, ("x",)) == 2.0
    assert cost.seconds(10, ("y",)) < 1e-6
    assert cost.seconds(10, (MESH.axis("x"), MESH.axis("y"))) == 2.0
