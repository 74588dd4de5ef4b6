"""TensorFlow's written form of a layout, and the members that TensorFlow's layouts have."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.errors import LayoutError, MeshError
from dtensor.dialect.layout import MATCH, OPEN, UNSHARDED, Layout
from dtensor.dialect.layout_members import LayoutType
from dtensor.dialect.mesh import Mesh
from tests.py.dialect.strategies import layouts, on_named_devices

TPUS = [f"/job:localhost/replica:0/task:0/device:TPU:{i}" for i in range(12)]
MESH_TEXT = f"|x=3,y=4|{','.join(map(str, range(12)))}|{','.join(map(str, range(12)))}|" + ",".join(
    TPUS
)
MESH = Mesh.from_string(MESH_TEXT)


@given(layouts().filter(lambda layout: layout.mesh.axes))
def test_the_written_form_reads_back(layout: Layout) -> None:
    named = Layout.of(layout.dims, on_named_devices(layout.mesh), layout.partial)
    assert Layout.from_string(named.to_string()) == named
    assert Layout(named.sharding_specs, named.mesh, named.partial) == named
    assert pickle.loads(pickle.dumps(named)) == named


def test_layouts_are_written_as_tensorflow_writes_them() -> None:
    layout = Layout(["x", UNSHARDED], MESH)
    text = f"sharding_specs:x,unsharded, mesh:{MESH_TEXT}"
    assert layout.to_string() == text
    assert str(layout) == f"Layout.from_string({text})"
    assert repr(layout) == "Layout(['x', UNSHARDED], Mesh(x=3, y=4))"
    assert Layout([], MESH).to_string() == f"sharding_specs: mesh:{MESH_TEXT}"
    single = Layout.from_device(TPUS[1])
    assert single.to_string() == f"maximal:true, mesh:{TPUS[1]}"
    assert single == Layout.from_single_device_mesh(Mesh.from_device(TPUS[1]))
    assert Layout.from_string("empty_layout").to_string() == "empty_layout"


def test_what_tensorflow_cannot_say() -> None:
    part = AxisRef("y", 2, 2)
    layout = Layout([("x", part), (5, "y", OPEN)[:1], OPEN], MESH, partial={"sum": []})
    assert layout.sharding_specs == ["x+y:(2)2", UNSHARDED, "any"]
    assert Layout([(3, "x"), MATCH], MESH).sharding_specs == ["3+x", "match"]
    partial = Layout(["x"], MESH, partial={"max": "y"})
    assert partial.to_string() == f"sharding_specs:x, partial:max(y), mesh:{MESH_TEXT}"


@pytest.mark.parametrize("specs", ["x,unsharded,", "x,unsharded", "x, unsharded ,"])
def test_the_last_entry_counts_with_and_without_its_comma(specs: str) -> None:
    layout = Layout.from_string(f"sharding_specs:{specs} mesh:{MESH_TEXT}")
    assert layout == Layout(["x", UNSHARDED], MESH)


def test_other_words_for_layouts() -> None:
    assert Layout.from_string(f"sharding_specs:scalar, mesh:{MESH_TEXT}").rank == 0
    assert Layout.from_string(f"sharding_specs:any, mesh:{MESH_TEXT}") == Layout([OPEN], MESH)


def test_members() -> None:
    layout = Layout([UNSHARDED, "y", "x"], MESH)
    assert [layout.num_shards(axis) for axis in (0, 1, -1)] == [1, 4, 3]
    assert layout.sharding_specs == [UNSHARDED, "y", "x"]
    assert layout.shape == [3, 4]  # of the mesh
    assert layout.type is LayoutType.STATIC
    assert layout.delete([0, 2]) == Layout(["y"], MESH)
    assert layout.delete([-1]) == Layout([UNSHARDED, "y"], MESH)
    assert layout.local_shape_from_global_shape([2, 8, 6]) == (2, 2, 2)
    assert layout.global_shape_from_local_shape([2, 2, 2]) == (2, 8, 6)
    shards = layout.offset_to_shard()
    assert shards[0] == (0, 0, 0)
    assert shards[5] == (0, 1, 1)
    assert [layout.offset_tuple_to_global_index(shards[i]) for i in (0, 5, 11)] == [0, 4, 11]
    assert Layout.replicated(MESH, 2).is_fully_replicated()
    assert Layout.batch_sharded(MESH, "x", 2).is_batch_parallel()
    assert not layout.is_batch_parallel()
    assert not Layout.replicated(MESH, 2).is_batch_parallel()
    assert not Layout([], MESH).is_batch_parallel()
    assert Layout.from_device(TPUS[0]).type is LayoutType.SINGLE_DEVICE
    assert Layout.from_string("empty_layout").type is LayoutType.EMPTY


def test_a_single_device_takes_arrays_of_any_rank() -> None:
    single = Layout.from_device(TPUS[0])
    assert single.for_rank(3) == Layout.replicated(single.mesh, 3)
    assert Layout(["x"], MESH).for_rank(3).rank == 1


def test_match_takes_the_dimension_of_the_other_layout() -> None:
    other = Layout(["y", "x"], MESH)
    assert Layout([MATCH, UNSHARDED], MESH).matching(other) == Layout(["y", UNSHARDED], MESH)
    with pytest.raises(LayoutError, match='uses axis "x" twice'):
        Layout(["x", MATCH], MESH).matching(other)
    with pytest.raises(LayoutError, match="cannot match"):
        Layout([MATCH], MESH).matching(other)
    assert "MATCH" in str(Layout([MATCH], MESH).border_problem())


def test_match_is_written_in_all_forms() -> None:
    layout = Layout([MATCH, "x"], MESH)
    assert layout.asm() == '#dtensor.layout<@mesh, [{match}, {"x"}]>'
    assert Layout.parse(layout.asm(), MESH) == layout
    assert repr(layout).startswith("Layout([MATCH, 'x'], Mesh(")


def test_what_a_layout_prints_is_python() -> None:
    for partial in ({"sum": "x", "max": "y"}, {"prod": ("x", "y")}):
        layout = Layout([UNSHARDED], MESH, partial=partial)
        words = repr(layout).partition(f"{MESH!r}, partial=")[2]
        assert Layout([UNSHARDED], MESH, partial=eval(words.removesuffix(")"))) == layout


def test_blanks_are_no_part_of_a_name() -> None:
    for spec in ("x ", " x", "x + y"):
        with pytest.raises(LayoutError, match='names axis "x "' if spec != " x" else 'axis " x"'):
            Layout([spec], MESH)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it names no mesh; the form is"),
        (3, "a layout is read from text, such as .*, not from 3"),
        (f"sharding_specs:², mesh:{MESH_TEXT}", 'names axis "²"'),
        ("sharding_specs:x,", "it names no mesh"),
        (f"x, mesh:{MESH_TEXT}", "malformed layout"),
        (f"sharding_specs:z, mesh:{MESH_TEXT}", 'names axis "z" that mesh @mesh does not have'),
        (f"sharding_specs:x,x, mesh:{MESH_TEXT}", 'uses axis "x" twice'),
        (f"sharding_specs:,, mesh:{MESH_TEXT}", "dimension 0 says nothing"),
        (f"sharding_specs:x,,y, mesh:{MESH_TEXT}", "dimension 1 says nothing"),
        (f"parted:x, mesh:{MESH_TEXT}", "parted layouts make operations act on each shard"),
        (f"sharding_specs:x, partial:most(y), mesh:{MESH_TEXT}", "unknown reduction 'most'"),
        (f"sharding_specs:x, partial:y, mesh:{MESH_TEXT}", r"'y' is not like sum\(x;y\)"),
        (f"maximal:true, mesh:{MESH_TEXT}", "is not a mesh of a single device"),
        ("sharding_specs:x, mesh:|x=2", "malformed mesh"),
    ],
)
def test_what_is_not_a_layout(text: Any, message: str) -> None:
    with pytest.raises((LayoutError, MeshError), match=message):
        Layout.from_string(text)


def test_dimensions_that_do_not_exist_and_shapes_that_do_not_fit() -> None:
    layout = Layout(["x", UNSHARDED], MESH)
    for call in (lambda: layout.num_shards(2), lambda: layout.delete([5])):
        with pytest.raises(LayoutError, match="does not exist in a layout of rank 2"):
            call()
    with pytest.raises(LayoutError, match="dimension 3 does not exist"):
        Layout.batch_sharded(MESH, "x", 2, axis=3)
    assert layout.local_shape_from_global_shape([7, 5]) == (3, 5)
    with pytest.raises(LayoutError, match="the shards have rank 1"):
        layout.global_shape_from_local_shape([2])
    with pytest.raises(LayoutError, match=r"there is no shard \(3, 0\); there are \[3, 1\]"):
        layout.offset_tuple_to_global_index((3, 0))
    with pytest.raises(LayoutError, match="parted"):
        layout.to_parted()
