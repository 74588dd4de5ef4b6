"""Layouts, axes and meshes as MLIR attributes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import given

from dtensor.dialect import attributes
from dtensor.dialect.axes import AxisRef
from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from tests.py.dialect.strategies import layouts, meshes

MESH = Mesh({"x": 2, "y": 4})
MESHES = {"mesh": MESH}
CONTEXT = make_context()


@pytest.fixture(autouse=True)
def _in_context() -> Iterator[None]:
    with CONTEXT, ir.Location.unknown():
        yield


@given(layouts())
def test_a_layout_comes_back(layout: Layout) -> None:
    with CONTEXT:
        attribute = attributes.layout_attr(layout)
        assert str(attribute) == layout.asm()
        written = ir.Attribute.parse(layout.asm())
        assert written == attribute
        attributes.forget_context()  # or the one that was written would be remembered
        assert attributes.layout_of(written, {layout.mesh.symbol: layout.mesh}) == layout


@given(meshes())
def test_a_mesh_comes_back(mesh: Mesh) -> None:
    with CONTEXT:
        assert attributes.mesh_of(attributes.mesh_attr(mesh), mesh.symbol) == mesh


@given(meshes())
def test_axes_come_back(mesh: Mesh) -> None:
    axes = tuple(mesh.axis(name) for name in reversed(mesh.axis_names))
    with CONTEXT:
        attribute = attributes.axes_attr(mesh, axes)
        assert attributes.axes_of(attribute, {mesh.symbol: mesh}) == axes


def test_parts_of_axes_come_back() -> None:
    axes = (AxisRef("y", 2, 2), AxisRef("x", 1, 2))
    attribute = attributes.axes_attr(MESH, axes)
    assert str(attribute) == '#dtensor.axes<@mesh, ["y":(2)2, "x"]>'
    assert attributes.mesh_and_axes(attribute, MESHES) == (MESH, axes)


@pytest.mark.parametrize("name", ["", "grid"])
def test_axes_are_parsed_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = Mesh({"x": 2, "y": 4}, name=name)
    parsed = []
    opaque_text = attributes.opaque_text

    def count(attribute: ir.Attribute, what: str) -> str:
        parsed.append(what)
        return opaque_text(attribute, what)

    monkeypatch.setattr(attributes, "opaque_text", count)
    attribute = attributes.axes_attr(mesh, [mesh.axis("y")])
    for _ in range(3):
        assert attributes.axes_of(attribute, {mesh.symbol: mesh}) == (mesh.axis("y"),)
    assert parsed == ["axes"]


def test_a_layout_that_was_written_here_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout(["x"], MESH)
    attribute = attributes.layout_attr(layout)
    monkeypatch.delattr(attributes, "parse_layout")
    assert attributes.layout_of(attribute, MESHES) is layout


def test_a_list_of_layouts_comes_back_with_gaps() -> None:
    listed = (Layout(["x"], MESH), None, Layout([], MESH))
    attribute = attributes.layouts_array_attr(listed)
    attributes.forget_context()
    assert attributes.layouts_of_array(attribute, MESHES) == listed


def test_the_same_text_means_the_mesh_at_hand() -> None:
    attribute = attributes.layout_attr(Layout(["x"], MESH))
    larger = Mesh({"x": 8})
    assert attributes.layout_of(attribute, MESHES).shard_count == 2
    assert attributes.layout_of(attribute, {"mesh": larger}).shard_count == 8
    assert attributes.layout_of(attribute, MESHES).shard_count == 2
    axes = attributes.axes_attr(MESH, [MESH.axis("x")])
    assert attributes.axes_of(axes, {"mesh": larger}) == (larger.axis("x"),)
    both = attributes.layouts_array_attr([Layout(["x"], MESH)])
    assert attributes.layouts_of_array(both, {"mesh": larger}) == (Layout(["x"], larger),)


def test_each_context_gets_its_own_attributes() -> None:
    layout = Layout(["x"], MESH)
    first = attributes.layout_attr(layout)
    with make_context() as other:
        second = attributes.layout_attr(layout)
        assert second.context is other
        assert attributes.layout_of(second, MESHES) == layout
    assert attributes.layout_attr(layout) == first
    assert attributes.layout_attr(layout).context is CONTEXT


def test_remembering_does_not_keep_old_contexts() -> None:
    attributes.forget_context()
    before = ir.Context._get_live_count()
    for _ in range(4):
        with make_context():
            attributes.layout_attr(Layout(["x"], MESH))
    attributes.layout_attr(Layout(["x"], MESH))
    assert ir.Context._get_live_count() == before


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('#dtensor.layout<@mash, [{"x"}]>', "unknown mesh @mash; did you mean '@mesh'?"),
        ('#dtensor.axes<@mesh, ["x"]>', "expected a #dtensor.layout<...> attribute, found"),
        ('"x"', 'expected a #dtensor.layout<...> attribute, found "x"'),
    ],
)
def test_what_is_no_layout_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(LayoutError, match=re.escape(sentence)):
        attributes.layout_of(ir.Attribute.parse(text), MESHES)


def test_meshes_are_read_by_symbol() -> None:
    text = '"dtensor.mesh"() {sym_name = "a", mesh = #dtensor.mesh<["x"=2]>} : () -> ()\n'
    module = parse_module(text + text.replace('"a"', '"b"').replace("2", "3"))
    assert attributes.read_meshes(module) == {
        "a": Mesh({"x": 2}, name="a"),
        "b": Mesh({"x": 3}, name="b"),
    }
