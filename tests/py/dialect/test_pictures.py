"""Pictures of layouts and meshes: who holds what, as cells and as SVG."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import MATCH, OPEN, Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.pictures.layouts import layout_picture, mesh_picture
from dtensor.dialect.pictures.picture import Picture, Side, devices_text
from dtensor.dialect.pictures.svg import color, svg

MESH = Mesh([("x", 2), ("y", 4)])
CUBE = Mesh([("a", 2), ("b", 2), ("c", 2)])
SVG = "{http://www.w3.org/2000/svg}"


def texts(picture: Picture) -> list[list[str | None]]:
    return [[None if cell is None else cell.text for cell in row] for row in picture.cells]


def shards(picture: Picture) -> list[list[int | None]]:
    return [[None if cell is None else cell.shard for cell in row] for row in picture.cells]


def test_two_dimensions_are_rows_and_columns() -> None:
    picture = layout_picture(Layout(["x", "y"], MESH), (4, 24))
    assert picture.rows == Side("dimension 0: 4 over x (2)", ("0:2", "2:4"))
    assert picture.columns is not None
    assert picture.columns.ticks == ("0:6", "6:12", "12:18", "18:24")
    assert texts(picture) == [["0", "1", "2", "3"], ["4", "5", "6", "7"]]
    assert shards(picture) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert picture.notes == ()


def test_the_last_parts_of_an_uneven_dimension_are_shorter() -> None:
    picture = layout_picture(Layout([None, "y"], MESH), (4, 5))
    assert picture.columns == Side("dimension 1: 5 over y (4)", ("0:2", "2:4", "4:5", "5:5"))


@pytest.mark.parametrize(
    ("specs", "cells", "note"),
    [
        ([None, "y"], [["0, 4", "1, 5", "2, 6", "3, 7"]], "replicated over x"),
        (["x", None], [["0-3"], ["4-7"]], "replicated over y"),
        ([None, None], [["0-7"]], "replicated: every device holds all of it"),
        ([None], [["0-7"]], "replicated: every device holds all of it"),
        ([], [["0-7"]], "replicated: every device holds all of it"),
    ],
)
def test_devices_of_the_same_elements_stand_together(
    specs: list[Any], cells: list[list[str]], note: str
) -> None:
    picture = layout_picture(Layout(specs, MESH))
    assert texts(picture) == cells
    assert picture.notes == (note,)


def test_one_dimension_over_several_axes_is_drawn_in_the_order_of_its_elements() -> None:
    picture = layout_picture(Layout([("y", "x")], MESH), (16,))
    assert picture.rows is None
    assert texts(picture) == [["0", "4", "1", "5", "2", "6", "3", "7"]]
    assert picture.columns is not None
    assert picture.columns.text == "dimension 0: 16 over y (4), x (2)"
    assert picture.columns.ticks[:2] == ("0:2", "2:4")


def test_sub_axes_name_the_part_that_they_are() -> None:
    picture = layout_picture(Layout([AxisRef("y", 1, 2), AxisRef("y", 2, 2)], MESH), (6, 10))
    assert picture.rows is not None
    assert picture.rows.text == 'dimension 0: 6 over "y":(1)2 (2 of the 4 of y)'
    assert texts(picture) == [["0, 4", "1, 5"], ["2, 6", "3, 7"]]


def test_blocks_of_a_shard_have_its_color() -> None:
    picture = layout_picture(Layout([(3, "x")], MESH), (12,))
    assert shards(picture) == [[0, 1, 0, 1, 0, 1]]
    assert texts(picture) == [["0-3", "4-7"] * 3]


def test_device_ids_are_those_of_the_mesh() -> None:
    mesh = Mesh([("x", 4)], device_ids=[3, 9, 1, 5])
    assert texts(layout_picture(Layout(["x"], mesh))) == [["3", "9", "1", "5"]]
    assert texts(mesh_picture(mesh)) == [["3", "9", "1", "5"]]


def test_of_more_dimensions_the_two_with_most_shards_are_drawn_and_the_rest_told() -> None:
    picture = layout_picture(Layout(["a", None, "b", "c"], CUBE), (2, 3, 4, 6))
    assert picture.rows is not None
    assert picture.columns is not None
    assert picture.rows.text.startswith("dimension 2: 4 over b")
    assert picture.columns.text.startswith("dimension 3: 6 over c")
    assert texts(picture) == [["0", "1"], ["2", "3"]]  # those of a=0
    assert picture.notes == (
        "drawn: dimensions 2 and 3 of 4",
        "not drawn: dimension 0: 2 over a (2); its shard 0 of 2 is drawn",
        "not drawn: dimension 1: 3, whole",
    )


def test_the_dimensions_can_be_chosen() -> None:
    layout = Layout(["a", None, "b", "c"], CUBE)
    picture = layout_picture(layout, (2, 3, 4, 6), dims=(-1, 0))
    assert picture.rows is not None
    assert picture.columns is not None
    assert picture.rows.text.startswith("dimension 3")
    assert picture.columns.text.startswith("dimension 0")
    assert texts(picture) == [["0", "4"], ["1", "5"]]
    assert texts(layout_picture(layout, dims=(2,))) == [["0", "2"]]


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ((), r"dims are \[\]; give one or two different dimensions to draw"),
        ((0, 0), r"dims are \[0, 0\]; give one or two"),
        ((0, 1, 0), "give one or two"),
        ((2,), "dims names dimension 2, but the array has rank 2"),
        ((-3,), "dims names dimension -3, but the array has rank 2"),
    ],
)
def test_dimensions_that_do_not_exist_are_refused(dims: tuple[int, ...], message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        layout_picture(Layout(["x", None], MESH), dims=dims)


def test_a_shape_that_does_not_fit_is_refused() -> None:
    with pytest.raises(LayoutError, match="has 1 dimension"):
        layout_picture(Layout(["x"], MESH), (2, 2))


def test_partial_open_and_matching_layouts_say_so() -> None:
    assert layout_picture(Layout(["x"], MESH, partial={"sum": "y"})).notes == (
        'each device holds a part of a sum over "y"',
    )
    columns = layout_picture(Layout([("x", OPEN)], MESH)).columns
    assert columns is not None
    assert columns.text == "dimension 0 over x (2), open"
    columns = layout_picture(Layout([MATCH], MESH)).columns
    assert columns is not None
    assert columns.text == "dimension 0, as it is found"


def test_of_thousands_of_shards_the_first_and_the_last_are_drawn() -> None:
    mesh = Mesh.abstract([("x", 512), ("y", 8)])
    picture = layout_picture(Layout(["x", "y"], mesh), (4096, 64))
    assert picture.rows is not None
    assert len(picture.rows.ticks) == len(picture.cells) == 16
    assert picture.rows.ticks[-3:] == ("104:112", "...", "4088:4096")
    assert texts(picture)[-2] == [None] * 8
    assert texts(picture)[-1][-1] == "4095"
    assert len(layout_picture(Layout(["x", "y"], mesh), (4096, 64), most=8).cells) == 8
    picture = layout_picture(Layout([None, "y"], mesh))
    assert texts(picture)[0][:2] == ["0-4088 by 8", "1-4089 by 8"]


def test_a_mesh_has_its_last_axis_to_the_right() -> None:
    picture = mesh_picture(CUBE)
    assert picture.rows == Side("a x b (4)", ("a=0 b=0", "a=0 b=1", "a=1 b=0", "a=1 b=1"))
    assert picture.columns == Side("c (2)", ("0", "1"))
    assert texts(picture) == [["0", "1"], ["2", "3"], ["4", "5"], ["6", "7"]]


def test_a_device_by_itself() -> None:
    mesh = Mesh.from_device("/job:localhost/replica:0/task:0/device:CPU:0")
    for picture in (mesh_picture(mesh), layout_picture(Layout.from_single_device_mesh(mesh))):
        assert (picture.rows, picture.columns, texts(picture)) == (None, None, [["0"]])
    picture = layout_picture(Layout.from_single_device_mesh(mesh), (3, 4))  # of any rank
    assert texts(picture) == [["0"]]
    assert picture.columns == Side("dimension 1: 4, whole", ("0:4",))


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ([5], "5"),
        ([1, 0], "0, 1"),
        ([0, 1, 2, 8], "0-2, 8"),
        ([0, 2, 4, 6], "0, 2, 4, 6"),
        (range(0, 40, 8), "0-32 by 8"),
        ([0, 2, 4, 9, 11, 30], "0, 2, 4, ... (6 devices)"),
        ([], "none"),
    ],
)
def test_device_ids_in_few_words(ids: list[int], text: str) -> None:
    assert devices_text(ids) == text


@given(st.sampled_from(["x", "y", None, ("y", "x"), ("x", "y"), (3, "y")]), st.integers(0, 3))
def test_every_device_is_drawn_where_the_layout_has_it(spec: Any, whole: int) -> None:
    layout = Layout([*[None] * whole, spec], MESH)
    picture = layout_picture(layout)
    drawn: dict[int, set[str]] = {}
    for row in picture.cells:
        for cell in row:
            assert cell is not None
            drawn.setdefault(cell.shard, set()).add(cell.text)
    holders: dict[int, list[int]] = {}
    for device, shard in enumerate(layout.offset_to_shard()):
        holders.setdefault(shard[-1], []).append(device)
    assert drawn == {shard: {devices_text(ids)} for shard, ids in holders.items()}


# As SVG.


def test_an_svg_is_well_formed_and_says_what_the_picture_says() -> None:
    picture = layout_picture(Layout(["x", "y"], MESH), (4, 24))
    root = ElementTree.fromstring(svg(picture, "x < y & z"))
    assert root.find(f"{SVG}title").text == "x < y & z"  # type: ignore[union-attr]
    cells = [r.get("fill") for r in root.iter(f"{SVG}rect")]
    assert cells == [color(shard) for shard in range(8)]
    said = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert {"0:2", "18:24", "7", "\N{DOWNWARDS ARROW} dimension 0: 4 over x (2)"} <= set(said)


def test_an_svg_holds_all_of_its_text() -> None:
    # A character of a monospaced font of 12 pixels is at most 7.3 wide.
    layout = Layout([AxisRef("y", 1, 2), AxisRef("y", 2, 2)], MESH)
    root = ElementTree.fromstring(svg(layout_picture(layout, (6, 10)), ""))
    width = float(root.get("width", 0))
    for text in root.iter(f"{SVG}text"):
        if text.get("text-anchor") == "start":
            assert len("".join(text.itertext())) * 7.3 <= width
        elif text.get("text-anchor") == "end":
            assert len("".join(text.itertext())) * 7.3 <= float(text.get("x", 0))


def test_an_svg_needs_nothing_from_elsewhere_and_escapes_its_text() -> None:
    picture = Picture(Side("<b>", ("&",)), Side("<i>", ("'\"",)), (), ("</svg>",))
    drawn = svg(picture, "<script>")
    ElementTree.fromstring(drawn)
    assert not re.search(r"<(script|b|i)>|href|url\(", drawn)


def test_colors_differ_and_are_light_enough_for_dark_text() -> None:
    colors = [color(shard) for shard in range(16)]
    assert len(set(colors)) == 16
    for each in colors:
        red, green, blue = (int(each[i : i + 2], 16) / 255 for i in (1, 3, 5))
        assert 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2 > 0.4


# In notebooks.


def test_meshes_and_layouts_in_notebooks() -> None:
    for value in (MESH, Layout(["x", OPEN], MESH), Mesh.abstract([("x", 4096)])):
        root = ElementTree.fromstring(value._repr_html_())
        assert root.findtext("p/code") == repr(value)
        assert root.find(f"div/{SVG}svg") is not None
