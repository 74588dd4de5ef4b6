"""Which ways to use sub-axes are listed: all of a few, and those of one pattern of many parts."""

import itertools
from typing import Any

import pytest

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.passes.planning.all_places import (
    all_places,
    groups_of,
    named_together,
    uses,
    words,
)
from dtensor.passes.propagation.places import WHOLE, split_place
from tests.py.passes.run_passes import after, function

FOUR_PARTS = (range(1), range(1, 5))  # an axis, and another that is cut into four
SIZES = (3, 2, 2, 2, 2)  # of these, in devices


@pytest.mark.parametrize(
    ("layouts", "together"),
    [
        ([[("a", "b"), None], [None, ("a", "b", "c")]], [2, 1]),
        ([[("a", "b", "c"), None]], [3]),
        ([[("b", "a"), "c"]], [1, 1, 1]),  # in another order
        ([[("a", "b"), None], ["b", None]], [1, 1, 1]),
        ([["a", "b"]], [1, 1, 1]),  # in two dimensions
        ([], [1, 1, 1]),
    ],
)
def test_axes_that_are_only_named_side_by_side_are_a_group(
    layouts: list[list[Any]], together: list[int]
) -> None:
    mesh = Mesh([("a", 2), ("b", 2), ("c", 2)])
    subaxes = [AxisRef(name, 1, 2) for name in "abc"]
    found = named_together(subaxes, [Layout(dims, mesh) for dims in layouts])
    assert [len(group) for group in found] == together
    assert [axis for group in found for axis in group] == [0, 1, 2]


def test_parts_of_one_axis_are_a_group() -> None:
    parts = [AxisRef("y", 1, 3), *[AxisRef("x", 2**k, 2) for k in range(4)]]
    assert groups_of(parts) == FOUR_PARTS


def test_few_parts_are_used_in_all_ways() -> None:
    groups = (range(2), range(2, 5))
    assert set(uses([range(3)] * 5, groups, SIZES, ())) == set(
        itertools.product(range(3), repeat=5)
    )


def test_many_parts_change_what_they_do_once_at_most() -> None:
    found = list(uses([range(3)] * 5, FOUR_PARTS, SIZES, ()))
    assert len(found) == len(set(found)) == 3 * (3 + 3 * 3 * 2)
    for first in range(3):
        for changes in ((2, 2, 2, 2), (0, 1, 1, 1), (2, 2, 2, 1)):
            assert (first, *changes) in found
    assert (0, 0, 1, 0, 0) not in found


def test_a_part_that_may_do_nothing_leaves_the_others_their_choices() -> None:
    found = set(uses([[7], [7], [7], [7, 8], [7, 8]], FOUR_PARTS, SIZES, ()))
    assert found == {(7, 7, 7, 7, 7), (7, 7, 7, 7, 8), (7, 7, 7, 8, 8)}


def test_parts_that_go_together_do_the_same_side_by_side() -> None:
    groups = (range(3),)
    choices = [range(2)] * 3
    assert list(uses(choices, groups, (2, 2, 4), (16, 32), True)) == [(0, 0, 0), (1, 1, 1)]
    found = list(words(48, (3,), range(3), (2, 2, 4), groups, together=True))
    assert found == [((0, 1), (1, 2), (2, 4)), ((0, 3), (1, 6), (2, 12))]
    places = all_places((32, 5, 16), (2, 2, 4), (), 0, groups, together=True)
    assert places[1:] == [tuple([split_place(d, end) for end in (1, 2, 4)]) for d in (0, 2)]


def test_parts_that_go_together_split_the_next_dimension_where_one_is_too_small() -> None:
    shape, sizes = (2, 2, 1, 4, 3), (2, 2, 2)
    found = list(uses([range(-1, 5)] * 3, (range(3),), sizes, shape, True))
    assert found == [(-1, -1, -1), (0, 1, 3), (1, 3, 3)]
    places = all_places(shape, sizes, (), 0, (range(3),), together=True)
    assert places[1:] == [
        (split_place(0, 1), split_place(1, 1), split_place(3, 1)),
        (split_place(1, 1), split_place(3, 1), split_place(3, 2)),
    ]


def test_few_sub_axes_stand_in_every_order() -> None:
    found = {tuple(major for _, major in word) for word in words(64, (), range(3), (2, 2, 4))}
    assert found == {(1, 2, 4), (2, 1, 4), (1, 8, 2), (8, 1, 2), (4, 8, 1), (8, 4, 1)}


def test_many_sub_axes_stand_in_the_order_of_the_mesh() -> None:
    assert list(words(81, (), (0, 1, 3), (3, 3, 3, 3))) == [((0, 1), (1, 3), (3, 9))]


def test_sub_axes_that_are_held_stay_where_they_are_in_any_order() -> None:
    sizes, held = (2, 2, 2, 2), {0: (2,), 2: (), 3: (1, 4)}
    assert list(words(64, (), (0, 1), sizes, majors=held)) == [((0, 2), (1, 1))]
    found = {tuple(word) for word in words(64, (), (0, 1, 3), sizes, majors=held)}
    assert found == {((0, 2), (1, 1), (3, 4)), ((0, 2), (1, 4), (3, 1))}
    at = [[split_place(0, 2)], None, [WHOLE], [WHOLE]]
    places = all_places((64,), sizes, (), 0, held=at)
    assert places == [(split_place(0, 2), split_place(0, 1), WHOLE, WHOLE)]


def test_many_free_sub_axes_stand_in_order_among_those_that_are_held() -> None:
    orders = {tuple(m for _, m in w) for w in words(64, (), (0, 1, 4), (2,) * 5, majors={4: (2,)})}
    assert orders == {(1, 4, 2)}


def test_many_parts_stand_side_by_side() -> None:
    """Blocks may stand ahead of the first part, and between axes, but not between parts."""
    found = set(words(480, (5, 15), range(5), (3, 2, 2, 2, 2), FOUR_PARTS))
    together = ((1, 3), (2, 6), (3, 12), (4, 24)), ((1, 15), (2, 30), (3, 60), (4, 120))
    assert found == {((0, 1), *together[0]), ((0, 1), *together[1]), ((0, 5), *together[1])}


def test_places_of_six_parts_are_listed() -> None:
    shape, sizes = (64, 3, 64), (2,) * 6
    places = all_places(shape, sizes, (), 0, (range(6),))
    assert places[0] == (WHOLE,) * 6
    assert tuple([split_place(0, 2**k) for k in range(6)]) in places
    halves = [split_place(0, 2**k) for k in range(3)] + [split_place(2, 2**k) for k in range(3)]
    assert tuple(halves) in places
    assert (
        len(places) == len(set(places)) == 3 + 5 * 6
    )  # nowhere, or in the first or last dimension


def test_an_axis_in_six_parts_is_planned() -> None:
    """Each halving of the rows keeps the parts that still fit."""
    lines = []
    for k in range(6):
        rows = 64 >> k
        half = f"tensor<{rows // 2}x3xf32>"
        for start in (0, 1):
            lines.append(
                f"%h{k}{start} = stablehlo.slice %x{k} [{start}:{rows}:2, 0:3] : "
                f"(tensor<{rows}x3xf32>) -> {half}"
            )
        lines.append(f"%p{k} = stablehlo.multiply %h{k}0, %h{k}1 : {half}")
        lines.append(f"%x{k + 1} = stablehlo.tanh %p{k} : {half}")
    text = function(
        '(%x0: tensor<64x3xf32> {dtensor.layout = #L[{"x"}, {}]#}) -> tensor<1x3xf32>',
        "\n".join([*lines, "return %x6 : tensor<1x3xf32>"]),
    )
    passes = "builtin.module(dtensor-import, dtensor-propagate)"
    with after(passes, text, Mesh([("x", 64)])) as (_, state):
        (plan,) = state.ledger.of_kind("plan")
        assert plan.seconds > 0.0
