"""create_distributed_mesh and barrier where there is one client; several are in clients/."""

import jax
import pytest

from dtensor.dialect.device_spec import DeviceSpec
from dtensor.dialect.errors import ConfigError, MeshError
from dtensor.runtime.client import create_mesh
from dtensor.runtime.clients import config
from dtensor.runtime.clients.agreement import barrier
from dtensor.runtime.clients.distributed_mesh import create_distributed_mesh
from dtensor.runtime.placement import jax_mesh

CPU = "/job:localhost/replica:0/task:0/device:CPU:"


@pytest.fixture(autouse=True)
def initialized(monkeypatch: pytest.MonkeyPatch) -> None:
    jax.devices()
    monkeypatch.setattr(config, "chosen", "CPU")


def test_all_devices_of_the_client_make_the_mesh() -> None:
    mesh = create_distributed_mesh({"x": 2, "y": 4}, "whole")
    assert mesh == create_mesh([("x", 2), ("y", 4)], "whole")
    assert mesh.local_devices() == [f"{CPU}{i}" for i in range(8)]


def test_some_devices_make_it_in_the_order_given() -> None:
    spec = DeviceSpec("localhost", 0, 0, "CPU", 3)
    mesh = create_distributed_mesh([("x", 3)], local_devices=["CPU:5", f"{CPU}1", spec])
    assert mesh.local_devices() == [f"{CPU}{i}" for i in (5, 1, 3)]
    assert [device.id for device in jax_mesh(mesh).devices.flat] == [5, 1, 3]


def test_it_must_be_initialized_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "chosen", None)
    with pytest.raises(ConfigError, match=r"accelerators are uninitialized; call dtensor\.initial"):
        create_distributed_mesh([("x", 8)])


def test_the_devices_must_fill_the_mesh() -> None:
    message = r"mesh\(x=3\) has 3 places, but there are 8 CPU devices \(8 per client \* 1 clients\)"
    with pytest.raises(MeshError, match=message):
        create_distributed_mesh([("x", 3)])


@pytest.mark.parametrize(
    ("devices", "device_type", "problem"),
    [
        ([], None, "devices is empty; give one for each place of the mesh"),
        (["CPU:0"], "GPU", "devices are of type CPU but device_type is GPU"),
        (["CPU:0", f"{CPU}0"], None, "names a device twice: [CpuDevice(id=0), CpuDevice(id=0)]"),
        (["CPU:8"], None, "unknown device /device:CPU:8; the CPU devices here are"),
        (["/job:localhost/replica:0/task:1/device:CPU:0"], None, "unknown device /job"),
        (["/job:other/replica:0/task:0/device:CPU:0"], None, "unknown device /job"),
        (["GPU:0"], None, "unknown device /device:GPU:0; the GPU devices here are none"),
        (["TPU:0"], "TPU", "given for a TPU mesh, which always has all devices; leave it out"),
        (["device 0"], None, "malformed device name 'device 0'"),
    ],
)
def test_devices_that_cannot_be(devices: list[str], device_type: str | None, problem: str) -> None:
    with pytest.raises(MeshError) as error:
        create_distributed_mesh([("x", 1)], local_devices=devices, device_type=device_type)
    assert problem in str(error.value)


def test_other_arguments_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match="unknown device type 'NPU'"):
        create_distributed_mesh([("x", 8)], device_type="NPU")
    with pytest.raises(MeshError, match="use_xla_spmd asks for XLA's own partitioner"):
        create_distributed_mesh([("x", 8)], use_xla_spmd=True)
    with pytest.raises(MeshError, match="mesh axis 'x' is given twice"):
        create_distributed_mesh([("x", 2), ("x", 4)])


@pytest.mark.parametrize("axes", [[("x", 8)], [("x", 2), ("y", 3)], [("x", 1)], []])
def test_one_client_passes_a_barrier(axes: list[tuple[str, int]]) -> None:
    barrier(create_mesh(axes))
    barrier(create_mesh(axes), "named", timeout_in_ms=1)


@pytest.mark.parametrize("timeout", [0, -1, 1.5, True])
def test_a_malformed_timeout_is_an_error(timeout: int) -> None:
    with pytest.raises(ConfigError, match=r"timeout_in_ms is .*; it must be a positive integer"):
        barrier(create_mesh([("x", 8)]), timeout_in_ms=timeout)


def test_a_barrier_of_something_else_is_an_error() -> None:
    with pytest.raises(TypeError, match="barrier needs a Mesh, got str"):
        barrier("x")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="barrier_name is 5; it must be a string, or None"):
        barrier(create_mesh([("x", 8)]), 5)  # type: ignore[arg-type]
