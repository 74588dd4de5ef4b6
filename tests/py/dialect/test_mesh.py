"""Mesh: written form, coordinates, groups, errors."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.errors import MeshError
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mesh_members import MeshDimension
from tests.py.dialect.strategies import meshes

MESH = Mesh({"x": 2, "y": 4})


@given(meshes())
def test_the_written_form_reads_back(mesh: Mesh) -> None:
    assert Mesh.parse(mesh.asm(), mesh.symbol) == mesh


@given(meshes())
def test_every_device_is_in_one_group_and_groups_differ_on_their_axes_alone(mesh: Mesh) -> None:
    names = mesh.axis_names[: len(mesh.axis_names) // 2 + 1]
    axes = [mesh.axis(name) for name in names]
    groups = mesh.groups(axes)
    assert sorted(position for group in groups for position in group) == list(range(mesh.size))
    for group in groups:
        for rank, position in enumerate(group):
            number = 0
            for axis in axes:
                number = number * axis.size + mesh.coordinate(position, axis)
            assert number == rank, "the first axis is major"


def test_coordinates_of_a_part_are_digits_of_the_whole() -> None:
    whole = MESH.axis("y")
    major, minor = (type(whole)("y", 1, 2), type(whole)("y", 2, 2))
    for position in range(8):
        digits = MESH.coordinate(position, major) * 2 + MESH.coordinate(position, minor)
        assert digits == MESH.coordinate(position, whole)


def test_device_ids_in_order_are_the_same_as_none() -> None:
    assert Mesh({"x": 2}, [0, 1]) == Mesh({"x": 2})
    assert Mesh({"x": 2}, [1, 0]) != Mesh({"x": 2})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("mesh<x=2>", """malformed mesh 'mesh<x=2>'; the form is #dtensor.mesh<["x"=2, "y"=4]>"""),
        ('mesh<["x"]>', """malformed mesh axis '"x"'; the form is "x"=2"""),
        ('mesh<["x"=0]>', "mesh axis 'x' has size 0; it must be a positive integer"),
        ('mesh<["x"=2, "x"=2]>', "mesh axis 'x' is given twice; axis names must differ"),
        ('mesh<["x"=2], device_ids=[0]>', "mesh of 2 devices was given 1 device ids; give one"),
        ('mesh<["x"=2], device_ids=[1, 1]>', "mesh names a device twice: [1, 1]"),
        ('mesh<["x"=100000000000]>', "mesh of 100,000,000,000 devices; at most 16,777,216"),
        ('mesh<["unsharded"=2]>', "mesh axis name 'unsharded' is reserved; choose another"),
    ],
)
def test_what_cannot_be_a_mesh_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(MeshError, match=re.escape(sentence)):
        Mesh.parse(text)


def test_an_unknown_axis_is_refused_with_the_known_ones() -> None:
    with pytest.raises(MeshError, match="mesh @mesh has no axis 'z'; it has 'x', 'y'"):
        MESH.axis("z")


def test_a_mesh_lists_the_names_of_its_axes() -> None:
    assert list(MESH) == [name for name in MESH.axis_names if name in MESH]
    assert [MESH[name].name for name in MESH] == list(MESH)


def test_strides_count_mesh_positions() -> None:
    mesh = Mesh({"x": 2, "y": 6, "z": 3})
    assert [mesh.axis_stride(name) for name in mesh.axis_names] == mesh.strides == [18, 3, 1]
    assert mesh.position_stride(AxisRef("y", 1, 2)) == 9  # the major part: three z's, three times
    assert mesh.position_stride(AxisRef("y", 2, 3)) == 3


def test_a_dimension_of_a_mesh_is_a_name_and_a_size() -> None:
    assert Mesh({"x": 2, "y": 4})["y"] == MeshDimension("y", 4)


def test_looking_at_a_mesh_does_not_start_a_runtime() -> None:
    grid = Mesh({"unused": 5}, name="never_bound")
    assert grid.known_devices() is None
    assert repr(grid) == "Mesh(unused=5, name=never_bound)"


@pytest.mark.parametrize("axes", [8, 0, "xy", "", 2.5])
def test_axes_are_a_list_or_a_mapping(axes: Any) -> None:
    with pytest.raises(MeshError, match=r"are not a list of \(name, size\) pairs"):
        Mesh(axes)
