"""Meshes over the devices jax has."""

import subprocess
import sys
from typing import Any

import jax
import numpy as np
import pytest

from dtensor import Layout, Mesh, barrier, copy_to_mesh, pack, relayout
from dtensor.dialect.errors import MeshError
from dtensor.runtime import client
from dtensor.runtime.client import create_mesh
from dtensor.runtime.placement import jax_mesh
from tests.py import fresh


def run_python(code: str, flags: str = "") -> subprocess.CompletedProcess[str]:
    environment = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags, "PATH": ""}
    return fresh.run(["-c", code], env=environment)


def test_a_mesh_takes_the_first_devices() -> None:
    mesh = create_mesh([("x", 2), ("y", 2)])
    assert mesh.axes == (("x", 2), ("y", 2))
    assert mesh.ids() == (0, 1, 2, 3)
    assert [d.id for d in jax_mesh(mesh).devices.flat] == [0, 1, 2, 3]


def test_a_mesh_over_given_devices_keeps_their_order() -> None:
    devices = jax.devices()
    mesh = create_mesh({"x": 2}, devices=[devices[5], devices[1]])
    assert mesh.ids() == (5, 1)
    assert mesh == create_mesh({"x": 2}, devices=[5, 1])
    assert list(jax_mesh(mesh).devices.flat) == [devices[5], devices[1]]


def test_too_few_devices_is_an_error_that_says_how_to_get_more() -> None:
    with pytest.raises(MeshError, match=r"x=4 x y=4 needs 16 devices, but jax has 8 CPU devices; "):
        create_mesh([("x", 4), ("y", 4)])
    with pytest.raises(MeshError, match="num_logical_cpu_devices=16"):
        create_mesh([("x", 4), ("y", 4)])
    with pytest.raises(MeshError, match="jax has no device of id 9"):
        create_mesh([("x", 1)], devices=[9])


def test_an_unknown_device_type_is_an_error() -> None:
    with pytest.raises(ValueError, match="unknown device type 'NPU'; it is one of CPU, GPU, TPU"):
        create_mesh([("x", 1)], device_type="NPU")


@pytest.mark.parametrize("flags", ["", "--xla_force_host_platform_device_count=6"])
def test_the_number_of_cpu_devices_holds_when_set_first(flags: str) -> None:
    done = run_python(
        "import dtensor, jax\n"
        "print(dtensor.initialize_accelerator_system('CPU', num_logical_cpu_devices=6))\n"
        "print(len(jax.devices()), dtensor.create_mesh([('x', 6)]).size)",
        flags,
    )
    assert done.stdout.split() == ["CPU", "6", "6"], done.stderr
    assert not done.stderr


def test_importing_the_package_does_not_import_jax() -> None:
    program = (
        "import sys, dtensor\n"
        "dtensor.Mesh, dtensor.Layout, dtensor.UNSHARDED, dtensor.CompileError\n"
        "print('jax' in sys.modules, 'numpy' in sys.modules, 'jit' in dir(dtensor))\n"
        "print(all(getattr(dtensor, name) is not None for name in dtensor.__all__))"
    )
    # Not in a fork, which has imported them.
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False", "True", "True"], done.stderr


def test_the_same_mesh_over_other_devices_is_refused() -> None:
    mesh = create_mesh([("a", 2)])
    with pytest.raises(MeshError, match="give one of the two another name"):
        client.bind_devices(mesh, jax.devices()[2:4])


NAMES = [f"/job:localhost/replica:0/task:0/device:CPU:{i}" for i in range(8)]


@pytest.mark.parametrize("every", [None, NAMES[:2]])
def test_local_devices_may_be_listed_in_any_order(every: list[str] | None) -> None:
    mesh = Mesh(["x"], np.arange(2), [1, 0], [NAMES[1], NAMES[0]], "", every)
    layout, whole = Layout(["x"], mesh), Layout.replicated(mesh, 1)
    assert mesh.local_device_locations() == [{"x": 1}, {"x": 0}]
    shards: list[Any] = copy_to_mesh(np.array([10, 20]), layout).unpack()
    assert [(int(s[0]), s.device.id) for s in shards] == [(20, 1), (10, 0)]
    packed = pack([np.array([10]), np.array([20])], layout)
    assert [next(iter(s.devices())).id for s in packed.unpack()] == [1, 0]
    assert relayout(packed, whole).numpy().tolist() == [20, 10]
    assert str(packed).startswith('DTensor({"CPU:1": [10], "CPU:0": [20]}')
    assert Mesh.from_string(mesh.to_string()) == mesh


def test_a_mesh_that_names_its_devices_itself_reads_back() -> None:
    mesh = Mesh.from_string("|x=2|*CPU")
    again = Mesh.from_string(mesh.to_string())
    assert again == mesh
    assert mesh.global_devices() == mesh.local_devices()
    a, b = (copy_to_mesh(np.ones(2, np.float32), Layout(["x"], m)) for m in (mesh, again))
    assert float((a + b).sum()) == 4


def test_a_named_mesh_that_was_read_is_written_with_its_devices_at_once() -> None:
    text = f"read|x=2|0,1|0,1|{NAMES[0]},{NAMES[1]}"
    assert str(Mesh.from_string(text)) == f"Mesh.from_string({text})"
    text = text.replace("read", "made")
    mesh = Mesh(["x"], np.arange(2), [0, 1], NAMES[:2], "made")
    assert str(Layout(["x"], mesh)) == f"Layout.from_string(sharding_specs:x, mesh:{text})"


def test_sizes_and_ids_may_be_numpy_integers() -> None:
    two, rest, ids = (np.array(n) for n in (2, -1, [3, 1]))
    sizes: list[Any] = [[("x", n[()])] for n in (two, rest)]
    assert create_mesh(sizes[0]) == create_mesh([("x", 2)])
    assert create_mesh(sizes[1]).sizes == (8,)
    assert create_mesh(devices=list(ids)).ids() == (3, 1)


def test_devices_may_be_a_grid_as_jax_makes_one() -> None:
    grid: Any = np.array(jax.devices()[:6]).reshape(2, 3)
    mesh = create_mesh([("x", 2), ("y", 3)], devices=grid)
    assert mesh.ids() == (0, 1, 2, 3, 4, 5)
    assert create_mesh([("x", 3), ("y", 2)], devices=grid.ravel()).ids() == mesh.ids()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mesh_dims": [("x", -1), ("y", -1)]}, r"mesh axes \['x', 'y'\] have size -1; only one"),
        ({"device_type": "GPU"}, "jax has no GPU device to make a mesh of"),
        ({"devices": "CPU:0"}, "devices is 'CPU:0'; give a list"),
        ({"devices": 5}, "devices is 5; give a list"),
        ({"devices": [None]}, "None is no device; give a jax device, its id or its name"),
        ({"devices": [True, False]}, "True is no device"),
        ({"mesh_name": 3}, "mesh name 3 is not an identifier"),
    ],
)
def test_what_a_mesh_cannot_be_made_of(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(MeshError, match=message):
        create_mesh(**arguments)


def test_nothing_can_be_on_the_empty_mesh() -> None:
    empty = Mesh.from_string("empty_mesh")
    assert empty.global_device_ids().tolist() == []
    with pytest.raises(MeshError, match="the empty mesh has no devices"):
        barrier(empty)
