"""TensorFlow's written form of a mesh, and its constructor."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtensor.dialect.errors import MeshError
from dtensor.dialect.mesh import Mesh
from tests.py.dialect.strategies import meshes, on_named_devices

TPUS = [f"/job:worker/replica:0/task:0/device:TPU:{i}" for i in range(6)]
GRID = f"grid|x=3,y=2|0,1,2,3,4,5|0,1,2,3,4,5|{','.join(TPUS)}"


@given(meshes().filter(lambda m: m.axes), st.integers(0, 9), st.booleans())
def test_the_written_form_reads_back(mesh: Mesh, first_id: int, whole: bool) -> None:
    named = on_named_devices(mesh, first_id, None if whole else (mesh.size + 1) // 2)
    again = Mesh.from_string(named.to_string())
    assert again == named
    assert again.to_string() == named.to_string()
    assert pickle.loads(pickle.dumps(named)) == named


def test_a_mesh_of_six_is_written_as_tensorflow_writes_it() -> None:
    mesh = Mesh(["x", "y"], np.arange(6).reshape(3, 2), list(range(6)), TPUS, "grid")
    assert mesh.to_string() == GRID
    assert str(mesh) == f"Mesh.from_string({GRID})"
    assert repr(mesh) == "Mesh(x=3, y=2, name=grid)"
    assert Mesh.from_string(GRID) == mesh
    assert mesh != Mesh({"x": 3, "y": 2}, name="grid")


def test_a_client_lists_its_own_devices_and_may_list_all() -> None:
    ids = np.arange(4, 10).reshape(2, 3)
    some = Mesh(["a", "b"], ids, [6, 7], TPUS[2:4])
    assert some.to_string() == f"|a=2,b=3|4,5,6,7,8,9|6,7|{TPUS[2]},{TPUS[3]}"
    assert some.global_devices() == []
    assert (some.local_device_ids(), some.min_global_device_id()) == ([6, 7], 4)
    assert some.local_device_locations() == [{"a": 0, "b": 2}, {"a": 1, "b": 0}]
    every = Mesh(["a", "b"], ids, [6, 7], TPUS[2:4], global_devices=TPUS)
    assert every.to_string() == f"{some.to_string()}|{','.join(TPUS)}"
    assert every.global_devices() == TPUS
    assert not every.is_remote()
    assert Mesh(["a"], np.arange(2), [], [], global_devices=TPUS[:2]).is_remote()


def test_members() -> None:
    mesh = Mesh.from_string(GRID)
    assert mesh.dim_names == ["x", "y"]
    assert (mesh.shape(), mesh.size, mesh.strides, mesh.name) == ([3, 2], 6, [2, 1], "grid")
    assert mesh["x"] == ("x", 3)
    assert mesh.dim_size("y") == 2
    assert mesh.contains_dim("y")
    assert "z" not in mesh
    assert mesh.device_type() == "TPU"
    assert mesh.coords(3).tolist() == [1, 1]
    assert mesh.device_location(4) == [2, 0]
    assert mesh.unravel_index()[5] == {"x": 2, "y": 1}
    assert mesh.global_device_ids().tolist() == [[0, 1], [2, 3], [4, 5]]
    assert (mesh.local_devices(), mesh.num_local_devices()) == (TPUS, 6)
    assert not mesh.use_xla_spmd()
    assert mesh.host_mesh().to_string() == GRID.replace("TPU", "CPU").replace("grid", "")
    with pytest.raises(MeshError, match=r"no device 6; it has 0 to 5"):
        mesh.coords(6)
    with pytest.raises(MeshError, match="no axis 'z'; it has 'x', 'y'"):
        mesh["z"]


def test_devices_may_be_generated() -> None:
    made = Mesh.from_string("|x=2,y=3|*TPU")
    names = [f"/job:localhost/task:0/device:TPU:{i}" for i in range(6)]
    assert made.to_string() == f"|x=2,y=3|0,1,2,3,4,5|0,1,2,3,4,5|{','.join(names)}"


def test_a_single_device_and_none() -> None:
    single = Mesh.from_device(TPUS[1])
    assert single.to_string() == single.single_device == TPUS[1]
    assert single.is_single_device()
    assert single.size == 1
    empty = Mesh.from_string("empty_mesh")
    assert (empty.to_string(), empty.size, empty.is_single_device()) == ("empty_mesh", 0, False)
    assert Mesh.from_string(GRID).single_device == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "malformed mesh ''; the form is name"),
        ("|x=2", "it has 2 parts between"),
        ("|x=2|0,1|0,1", "it has 4 parts between"),
        ("|x=2|CPU", r"found 'CPU' where one of \*CPU, \*GPU, \*TPU is due"),
        ("|x=2|*NPU", r"found '\*NPU' where"),
        ("|x|*TPU", "axis 'x' is not of the form x=3"),
        ("|x=0|*TPU", "axis 'x' has size 0"),
        ("|x=3,x=2|*TPU", "axis 'x' is given twice"),
        ("|unsharded=2|*TPU", "'unsharded' is reserved"),
        ("|match=2|*TPU", "'match' is reserved"),
        ("a|b=|x=2|0,1", "it has 4 parts"),
        ("a b|x=2|*TPU", "mesh name 'a b' is not an identifier"),
        (f"|x=2|0,1,2|0,1|{TPUS[0]},{TPUS[1]}", "axes need 2 devices but it lists 3 ids"),
        (f"|x=2|0,1|0,1|{TPUS[0]}", "local_device_ids has 2 entries and local_devices 1"),
        (f"|x=2|1,0|0,1|{TPUS[0]},{TPUS[1]}", r"must go up by one, row-major, but are \[1, 0\]"),
        (f"|x=2|0,1|0,7|{TPUS[0]},{TPUS[1]}", "local device id 7 is not among"),
        (f"|x=2|0,1|0,0|{TPUS[0]},{TPUS[1]}", "local_device_ids names a device twice"),
        (f"|x=2|0,1|0,1|{TPUS[0]},{TPUS[0]}", "names a device twice"),
        (f"|x=2|0,one|0,1|{TPUS[0]},{TPUS[1]}", "'one' is not a device id"),
        (f"|x=2|0,²|0,1|{TPUS[0]},{TPUS[1]}", "'²' is not a device id"),
        (3, "a mesh is read from text, such as .*, not from 3"),
        ("|x=2|0,1|0,1|CPU:0,TPU:1", "several types, CPU, TPU; use one"),
        ("|x=1|0|0|NPU:0", "device type NPU is not one of CPU, GPU, TPU"),
        (f"|x=2|0,1|0,1|{TPUS[0]},{TPUS[1]}|use_xla_spmd", "XLA's own partitioner"),
        (f"|x=2|0,1|0|{TPUS[0]}|{TPUS[0]}", "global_devices has 1 names for 2 devices"),
    ],
)
def test_what_is_not_a_mesh(text: Any, message: str) -> None:
    with pytest.raises(MeshError, match=message):
        Mesh.from_string(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["x"], [0, 1], [0, 1], TPUS[:2]), "global_device_ids is of type list; give a numpy"),
        ((["x"], np.arange(0), [], []), "global_device_ids is empty"),
        ((["x", "y"], np.arange(2), [0, 1], TPUS[:2]), r"1 dimensions for the 2 axes \['x', 'y'\]"),
        ((["x"], np.arange(2), np.arange(2), TPUS[:2]), "local_device_ids is of type ndarray"),
        ((["x"], np.arange(2), [0, 1], "ab"), "local_devices is of type str"),
        ((["x"], np.arange(2), [], []), "mesh has no devices"),
        ((["x"], np.arange(1), [0, 1], TPUS[:2]), "mesh of 1 devices was given 2 local ones"),
        (("x", np.arange(2), [0, 1], TPUS[:2]), "dim_names is 'x'"),
        ((["x"], np.arange(2), [0, 1], TPUS[:2], "", None, True), "XLA's own partitioner"),
        ((["x"], np.arange(2), [0, 1], TPUS[:2], "", TPUS[2:4]), "device 0 is .* name the same"),
        (([("x", 2)], None, None, None, "", TPUS[:2]), "global_devices was given without local"),
        (([("x", 2)], [0.5, 1.5]), "mesh has device id 0.5; it must be an integer"),
    ],
)
def test_what_the_constructor_refuses(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(MeshError, match=message):
        Mesh(*arguments)


def test_a_mesh_that_is_only_a_grid_has_no_devices_to_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dtensor.dialect.mesh_devices._naming", [])
    grid = Mesh({"x": 3, "y": 2}, device_ids=[5, 4, 3, 2, 1, 0], name="g")
    assert repr(grid) == "Mesh(x=3, y=2, device_ids=[5, 4, 3, 2, 1, 0], name=g)"
    with pytest.raises(MeshError, match=r"has no devices yet; make it with dtensor.create_mesh"):
        grid.to_string()
