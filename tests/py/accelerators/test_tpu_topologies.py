"""Meshes over TPU topologies as libtpu describes them, without the hardware."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import topologies
from jax.sharding import NamedSharding, PartitionSpec

from dtensor.dialect.errors import MeshError
from dtensor.dialect.layout import Layout
from dtensor.runtime.client import mesh_devices
from dtensor.runtime.placement import jax_mesh, local_devices, named_sharding
from dtensor.runtime.tpu.topology import device_location
from dtensor.tpu import Topology, create_tpu_mesh, topology_of

pytestmark = pytest.mark.accelerators

# Cores along x, y, z and core; processes, and devices of each.
SLICES = {
    "v5e:2x4": ([2, 4, 1, 1], 2, 4),
    "v5e:16x16": ([16, 16, 1, 1], 64, 4),
    "v4:2x2x2": ([2, 2, 2, 2], 2, 8),
    "v5p:2x2x2": ([2, 2, 2, 1], 2, 4),
}
MESHES = [name for name, (sizes, _, _) in SLICES.items() if sizes[-1] == 1]


@cache
def described(name: str) -> Any:
    return topologies.get_topology_desc(topology_name=name, platform="tpu")


@pytest.mark.parametrize("name", SLICES)
def test_the_topology_of_a_slice(name: str) -> None:
    sizes, tasks, devices_per_task = SLICES[name]
    topology = topology_of(described(name))
    assert topology.mesh_shape.tolist() == sizes
    assert topology.device_coordinates.shape == (tasks, devices_per_task, 4)
    assert not len(topology.missing_devices)
    assert Topology(serialized=topology.serialized()) == topology
    for device in described(name).devices:
        at = device_location(device)
        assert topology.task_ordinal_at_coordinates(at) == device.process_index


@pytest.mark.parametrize("name", MESHES)
@pytest.mark.parametrize("rank", [1, 2])
def test_a_mesh_over_a_slice_has_each_core_once(name: str, rank: int) -> None:
    devices = described(name).devices
    shape = [len(devices)] if rank == 1 else [len(devices) // 4, 4]
    own = f"rank{rank}_{name}".replace(":", "_")
    mesh = create_tpu_mesh(["data", "model"][:rank], shape, own, devices=described(name))
    assert sorted(d.id for d in mesh_devices(mesh)) == sorted(d.id for d in devices)


def test_cores_that_jax_does_not_order_are_refused() -> None:
    devices = described("v4:2x2x2").devices
    with pytest.raises(MeshError, match="jax has no order for the cores of this TPU slice"):
        create_tpu_mesh(["x"], [len(devices)], devices=devices)


@pytest.mark.parametrize("name", MESHES)
def test_a_mesh_over_a_slice_places_arrays_as_any_other(name: str) -> None:
    count = len(described(name).devices)
    mesh = create_tpu_mesh(
        ["a", "b"], [count // 2, 2], "place_" + name.replace(":", "_"), devices=described(name)
    )
    assert mesh.device_type() == "TPU"
    ours = jax_mesh(mesh)
    assert dict(ours.shape) == {"a": count // 2, "b": 2}
    assert tuple(ours.devices.flat) == mesh_devices(mesh)
    assert named_sharding(Layout(["b", "a"], mesh)) == NamedSharding(ours, PartitionSpec("b", "a"))
    assert [d.process_index for d in local_devices(mesh)] == [0] * SLICES[name][2]


def test_a_collective_over_a_tpu_mesh_compiles() -> None:
    mesh = create_tpu_mesh(["a", "b"], [2, 4], "compiled", devices=described("v5e:2x4"))

    def total(x: jax.Array) -> Any:
        return jax.lax.psum(x, "b")

    spec = PartitionSpec("a", "b")
    summed = jax.shard_map(
        total, mesh=jax_mesh(mesh), in_specs=spec, out_specs=PartitionSpec("a", None)
    )
    x = jax.ShapeDtypeStruct(
        (16, 512), jnp.float32, sharding=named_sharding(Layout(["a", "b"], mesh))
    )
    text = jax.jit(summed).lower(x).compile().as_text()
    assert text is not None
    assert "all-reduce" in text
