"""Layout: written form, shapes, which device has what, errors."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
from hypothesis import given

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.dim import WHOLE, digit_size
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import OPEN, UNSHARDED, Layout
from dtensor.dialect.layout_text import layout_mesh_name
from dtensor.dialect.mesh import Mesh
from tests.py.dialect.strategies import layouts, layouts_and_shapes

MESH = Mesh({"x": 2, "y": 4})


@given(layouts())
def test_the_written_form_reads_back(layout: Layout) -> None:
    assert Layout.parse(layout.asm(), layout.mesh) == layout
    assert layout_mesh_name(layout.asm()) == layout.mesh.symbol


def test_parts_of_an_axis_over_which_a_value_is_partial_are_one() -> None:
    parts = ((AxisRef("y", 2, 2), "sum"), (AxisRef("x", 1, 2), "sum"), (AxisRef("y", 1, 2), "sum"))
    for layout in (Layout([None], MESH, parts), Layout.of([WHOLE], MESH, parts)):
        assert layout == Layout([None], MESH, {"sum": ("x", "y")})
    mixed = Layout([None], MESH, ((AxisRef("y", 1, 2), "sum"), (AxisRef("y", 2, 2), "max")))
    assert len(mixed.partial) == 2


@given(layouts())
def test_equal_layouts_have_equal_hashes(layout: Layout) -> None:
    again = Layout.parse(layout.asm(), layout.mesh)
    assert hash(again) == hash(layout)
    assert len({again, layout}) == 1


def _owned(layout: Layout, shape: tuple[int, ...], position: int) -> set[tuple[int, ...]]:
    """The elements that a device has, from the definition: an element's digits on the axes."""
    ranges = []
    for size, dim in zip(shape, layout.dims, strict=True):
        indices = []
        for index in range(size):
            before = 1
            is_mine = True
            for digit in dim.digits:
                before *= digit_size(digit)
                if isinstance(digit, AxisRef):
                    wanted = index // (size // before) % digit.size
                    is_mine &= layout.mesh.coordinate(position, digit) == wanted
            indices += [index] if is_mine else []
        ranges.append(indices)
    return set(itertools.product(*ranges))


@given(layouts_and_shapes())
def test_shards_tile_the_global_shape(case: tuple[Layout, tuple[int, ...]]) -> None:
    layout, shape = case
    local_shape = layout.local_shape(shape)
    shards = [_owned(layout, shape, position) for position in range(layout.mesh.size)]
    assert all(len(shard) == math.prod(local_shape) for shard in shards)
    distinct = {frozenset(shard) for shard in shards}
    assert len(distinct) == layout.shard_count
    assert sum(len(shard) for shard in distinct) == math.prod(shape), "shards overlap"
    assert set().union(*distinct) == set(itertools.product(*map(range, shape)))


@given(layouts_and_shapes())
def test_local_and_global_shape_are_inverse(case: tuple[Layout, tuple[int, ...]]) -> None:
    layout, shape = case
    assert layout.global_shape(layout.local_shape(shape)) == shape


def test_the_written_form_is_canonical() -> None:
    parts = (AxisRef("y", 1, 2), AxisRef("y", 2, 2))
    assert Layout([parts], MESH) == Layout(["y"], MESH)
    assert Layout([(2, 3, "x", 4)], MESH) == Layout([(6, "x")], MESH)
    assert Layout([(1, "x", OPEN), UNSHARDED], MESH).asm() == (
        '#dtensor.layout<@mesh, [{"x", ?}, {}]>'
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            '<@mesh, [{"z"}]>',
            'layout names axis "z" that mesh @mesh does not have; it has "x", "y"',
        ),
        ('<@mesh, [{"x"}, {"x"}]>', 'layout uses axis "x" twice; an axis can split one dimension'),
        ('<@mesh, [{"y"}], partial = {sum: "y":(2)2}>', 'layout uses axis "y" twice'),
        ('<@mesh, [{"y":(3)2}]>', "is not a part of axis 'y', which has 4 devices"),
        ('<@mesh, [{?, "x"}]>', "'?' must come last in a dimension"),
        ('<@mesh, [{"x"}]', "expected '>', the text ends"),
        ("<@mesh, [{x}]>", "expected an axis name in quotes, found 'x' at column 17"),
        ('<@mesh, [{"x"}], whole = {}>', "expected 'partial', found 'whole'"),
        ('<@mesh, [{}], partial = {mean: "x"}>', "unknown reduction 'mean'; known are sum, max"),
        ('<@grid, [{"x"}]>', "layout refers to mesh @grid, but the mesh here is @mesh"),
    ],
)
def test_what_cannot_be_a_layout_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(LayoutError, match=re.escape(sentence)):
        Layout.parse(f"layout{text}", MESH)


@pytest.mark.parametrize(
    ("layout", "shape", "sentence"),
    [
        (Layout([(3, "x")], MESH), (8,), 'not divisible by the 6 blocks of {3, "x"}; pad it to 12'),
        (Layout(["y"], MESH), (4, 4), "layout has 1 dimensions but the tensor has rank 2"),
    ],
)
def test_what_does_not_fit_is_refused(
    layout: Layout, shape: tuple[int, ...], sentence: str
) -> None:
    with pytest.raises(LayoutError, match=re.escape(sentence)):
        layout.local_shape(shape)


def test_the_last_shards_of_an_uneven_dimension_are_padded() -> None:
    layout = Layout(["y", UNSHARDED], MESH)
    assert layout.local_shape((10, 3)) == (3, 3)
    assert layout.padded_shape((10, 3)) == (12, 3)
    assert layout.padded_shape((12, 3)) == (12, 3)
    assert layout.padded_shape((1, 0)) == (4, 0)
    problem = "dimension 0 has 10 elements, not divisible by the 4 devices of axes ['y']; "
    assert layout.problem((10, 3)) == problem + "pad it to 12, or leave it whole"
    assert layout.problem((10, 3), uneven=True) is None


def test_the_border_wants_complete_and_contiguous_values() -> None:
    assert Layout(["x", "y"], MESH).border_problem() is None
    partial = Layout([UNSHARDED], MESH, {"sum": "x"}).border_problem()
    assert partial is not None
    assert "partial over axes ['x']" in partial
    blocks = Layout([(3, "x")], MESH).border_problem()
    assert blocks is not None
    assert "drop the block count" in blocks


def test_questions_about_a_layout() -> None:
    assert Layout.inner_sharded(MESH, "y", 3) == Layout([UNSHARDED, UNSHARDED, "y"], MESH)
    assert Layout(["x", OPEN], MESH).has_open
    assert not Layout(["x", UNSHARDED], MESH).has_open
    assert Layout([("x", "y")], MESH).is_contiguous
    assert not Layout([(3, "x")], MESH).is_contiguous


@pytest.mark.parametrize("entry", [1, 0, True, 2.5, b"x", {"x"}])
def test_an_entry_is_a_name_or_a_tuple(entry: object) -> None:
    with pytest.raises(LayoutError, match="is neither UNSHARDED, an axis name nor a tuple of them"):
        Layout([entry], MESH)


def test_an_odd_entry_shows_itself_and_its_place() -> None:
    message = re.escape("layout entry 2.5, for dimension 1 in ['x', 2.5], is neither UNSHARDED")
    with pytest.raises(LayoutError, match=message):
        Layout(["x", 2.5], MESH)
    with pytest.raises(LayoutError, match=re.escape("layout entry array([1, 2]), for dimension 0")):
        Layout([np.array([1, 2])], MESH)
    with pytest.raises(LayoutError, match=r"partial over 2\.5: give the name of an axis"):
        Layout(["x"], MESH, partial={"sum": (2.5,)})


def test_the_arguments_have_tensorflows_names() -> None:
    assert Layout(sharding_specs=["x", UNSHARDED], mesh=MESH) == Layout(["x", None], MESH)
    with pytest.raises(LayoutError, match="needs a list with one entry per dimension, got None"):
        Layout(None, MESH)  # type: ignore[arg-type]
    with pytest.raises(LayoutError, match="cannot have rank -1"):
        Layout.replicated(MESH, -1)


def test_an_axis_of_one_device_is_used_once_too() -> None:
    single = Mesh({"x": 1, "y": 4})
    assert Layout(["x", "y"], single) == Layout([UNSHARDED, "y"], single)
    with pytest.raises(LayoutError, match='layout uses axis "x" twice'):
        Layout(["x", ("y", "x")], single)
