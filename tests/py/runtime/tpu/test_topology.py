"""Topologies: which process drives the core at which coordinates."""

import sys
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtensor.dialect.errors import DTensorError, MeshError
from dtensor.runtime.tpu.topology import Topology, topology_of, topology_proto
from tests.py.runtime.tpu.slices import FakeTpu, tpu_slice

COORDINATES = [[[0, 0, 0, 0], [0, 0, 0, 1]], [[1, 0, 0, 0], [1, 0, 0, 1]]]


# A v2-8: 2x2 chips of 2 cores, one task. By hand, from the encoding that protobuf.dev describes.
V2_8 = (
    b"\x0a\x04\x02\x02\x01\x02"  # mesh_shape, packed
    b"\x10\x01\x18\x08"  # num_tasks, num_tpu_devices_per_task
    b"\x22\x20"  # device_coordinates, packed: x, y, z, core
    b"\x00\x00\x00\x00\x00\x00\x00\x01\x01\x00\x00\x00\x01\x00\x00\x01"
    b"\x00\x01\x00\x00\x00\x01\x00\x01\x01\x01\x00\x00\x01\x01\x00\x01"
)
CORES = [[x, y, 0, core] for y in range(2) for x in range(2) for core in range(2)]


def message(shape: Any = (), tasks: int = 0, devices: int = 0, coordinates: Any = ()) -> bytes:
    """A TopologyProto in wire format."""
    proto = topology_proto()(
        mesh_shape=shape,
        num_tasks=tasks,
        num_tpu_devices_per_task=devices,
        device_coordinates=coordinates,
    )
    return bytes(proto.SerializeToString())


def test_the_message_is_read_and_written_as_tensorflow_has_it() -> None:
    topology = Topology(mesh_shape=[2, 2, 1, 2], device_coordinates=[CORES])
    assert topology.serialized() == V2_8
    feature, later = b"\x2a\x02\x08\x01", b"\xa2\x38\x05later"  # and field 900, a text
    unpacked = b"".join(b"\x08" + bytes([size]) for size in (2, 2, 1, 2))
    for data in (V2_8, V2_8 + feature, V2_8 + later, unpacked + V2_8[6:]):
        assert Topology(serialized=data) == topology
        assert Topology(serialized=data).serialized() == data


def test_a_missing_protobuf_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    topology_proto.cache_clear()
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(MeshError, match="install it with pip install protobuf"):
        Topology(serialized=V2_8)


def test_a_topology_says_where_each_device_is() -> None:
    topology = Topology(mesh_shape=[2, 1, 1, 2], device_coordinates=COORDINATES)
    assert topology.mesh_shape.tolist() == [2, 1, 1, 2]
    assert topology.mesh_shape.dtype == np.int32
    assert topology.mesh_rank == 4
    assert topology.device_coordinates.tolist() == COORDINATES
    assert topology.device_coordinates.dtype == np.int32
    assert (topology.num_tasks, topology.num_tpus_per_task) == (2, 2)
    assert topology.missing_devices.shape == (0, 4)
    assert topology.task_ordinal_at_coordinates([1, 0, 0, 0]) == 1
    assert topology.tpu_device_ordinal_at_coordinates(np.array([1, 0, 0, 1])) == 1
    assert repr(topology) == "Topology(x=2, y=1, z=1, core=2; 2 tasks of 2 devices)"


def test_the_serialized_form_says_all_of_it() -> None:
    topology = Topology(mesh_shape=[2, 1, 1, 2], device_coordinates=COORDINATES)
    data = topology.serialized()
    flat = [0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 1]
    assert data == message([2, 1, 1, 2], 2, 2, flat)
    again = Topology(serialized=data)
    assert again == topology
    assert hash(again) == hash(topology)
    assert again != Topology(mesh_shape=[2, 1, 1, 2], device_coordinates=COORDINATES[::-1])
    assert again.serialized() == data
    assert Topology(serialized=memoryview(data)).mesh_shape.dtype == np.int32


def test_missing_devices_are_listed() -> None:
    topology = Topology(mesh_shape=[2, 1, 1, 2], device_coordinates=COORDINATES[1:])
    assert topology.missing_devices.tolist() == [[0, 0, 0, 0], [0, 0, 0, 1]]
    assert repr(topology) == "Topology(x=2, y=1, z=1, core=2; 1 task of 2 devices, 2 missing)"
    with pytest.raises(MeshError, match=r"no TPU device is at coordinates \[0, 0, 0, 1\]"):
        topology.task_ordinal_at_coordinates([0, 0, 0, 1])


@pytest.mark.parametrize("at", [[-1, 0, 0, 0], [0, 0, 0], [2, 0, 0, 0], [0, 0, 0, 0, 0], "x", 1.5])
def test_coordinates_without_a_device_are_refused(at: Any) -> None:
    topology = Topology(mesh_shape=[2, 1, 1, 2], device_coordinates=COORDINATES)
    with pytest.raises(MeshError, match=r"coordinates"):
        topology.task_ordinal_at_coordinates(at)


def test_what_a_topology_holds_cannot_be_changed() -> None:
    coordinates = np.array(COORDINATES)
    topology = Topology(mesh_shape=[2, 1, 1, 2], device_coordinates=coordinates)
    coordinates[:] = 7
    assert topology.device_coordinates.max() == 1
    with pytest.raises(ValueError, match="read-only"):
        topology.mesh_shape[0] = 3


@pytest.mark.parametrize(
    ("mesh_shape", "coordinates", "message"),
    [
        (None, None, "`mesh_shape` must be a sequence of 4 positive entries; got None"),
        ([2, 1, 2], COORDINATES, r"sequence of 4 positive entries; got \[2, 1, 2\]"),
        ([2, 0, 1, 2], COORDINATES, r"sequence of 4 positive entries; got \[2, 0, 1, 2\]"),
        ([2**32 + 2, 1, 1, 2], COORDINATES, "sequence of 4 positive entries; got "),
        ([2, 1, 1, 2.5], COORDINATES, "sequence of 4 positive entries"),
        ("abcd", COORDINATES, "sequence of 4 positive entries; got 'abcd'"),
        ([[2, 1], [1, 2]], COORDINATES, "sequence of 4 positive entries"),
        ([2, 1, 1, 2], None, "`device_coordinates` must be a rank 3 int32 array with 4 in a row"),
        ([2, 1, 1, 2], COORDINATES[0], r"must be a rank 3 int32 array .*; got \[\[0, 0, 0, 0\]"),
        ([2, 1, 1, 2], [[[0, 0, 0]]], r"must be a rank 3 int32 array .*; got \[\[\[0, 0, 0\]\]\]"),
        ([2, 1, 1, 2], [[[0, 0, 0, 0]], []], "must be a rank 3 int32 array"),
        ([2, 1, 1, 2], [[[0, 0, 0, 0.5]]], "must be a rank 3 int32 array"),
        ([2, 1, 1, 2], [[[2, 0, 0, 0]]], r"below `mesh_shape` .*; got \[2, 0, 0, 0\]"),
        ([2, 1, 1, 2], [[[0, 0, -1, 0]]], r"must be >= 0 .*; got \[0, 0, -1, 0\]"),
        ([2, 1, 1, 2], [[[0, 0, 0, 1]] * 2], "has 2 devices at 1 places"),
    ],
)
def test_malformed_arguments_are_refused(mesh_shape: Any, coordinates: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        Topology(mesh_shape=mesh_shape, device_coordinates=coordinates)
    assert isinstance(error.value, DTensorError)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ((), "`mesh_shape` must be a sequence of 4 positive entries; got "),
        (([1, 1, 1],), "sequence of 4 positive entries"),
        (([1, 1, 1, -1],), "sequence of 4 positive entries"),
        (((1, 1, 1, 1), -1, 1, (0,) * 4), r"malformed TopologyProto: .*"),
        (((1, 1, 1, 1), 1, -2), r"malformed TopologyProto: .*"),
        (((1, 1, 1, 1), 1, 1, (0,) * 5), r"malformed TopologyProto: cannot reshape .* \(1,1,4\)"),
        (((1, 1, 1, 1), 1, 1, (0, 0, 0, -1)), "must be >= 0"),
    ],
)
def test_malformed_messages_are_refused(fields: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        Topology(serialized=message(*fields))


def test_serialized_is_bytes_and_given_alone() -> None:
    with pytest.raises(MeshError, match="`serialized` is of type str; give the bytes"):
        Topology(serialized="\x0a")  # type: ignore[arg-type]
    with pytest.raises(MeshError, match="leave one out"):
        Topology(serialized=b"", mesh_shape=[1, 1, 1, 1])
    with pytest.raises(MeshError, match="malformed TopologyProto: "):
        Topology(serialized=V2_8[:5])


@given(st.binary(max_size=30))
def test_noise_is_refused_with_one_line(data: bytes) -> None:
    try:
        Topology(serialized=data)
    except MeshError as error:
        assert "\n" not in str(error)  # noqa: PT017 - some noise is a topology


def test_the_topology_of_devices_is_by_process_and_id() -> None:
    devices = tpu_slice([4, 2, 1, 1], host=(2, 2, 1))
    topology = topology_of(devices)
    assert repr(topology) == "Topology(x=4, y=2, z=1, core=1; 2 tasks of 4 devices)"
    assert topology == topology_of(devices[::-1])
    for task, of_task in enumerate([devices[:4], devices[4:]]):
        for ordinal, device in enumerate(of_task):
            at = [*device.coords, device.core_on_chip]
            assert topology.task_ordinal_at_coordinates(at) == task
            assert topology.tpu_device_ordinal_at_coordinates(at) == ordinal


def test_the_topology_of_a_part_of_the_devices_lacks_the_others() -> None:
    devices = tpu_slice([2, 2, 1, 2], host=(2, 2, 1))
    assert topology_of(devices[2:]).missing_devices.tolist() == [[0, 0, 0, 0], [0, 0, 0, 1]]


def test_devices_that_make_no_topology_are_refused() -> None:
    with pytest.raises(MeshError, match="no devices were given"):
        topology_of([])
    with pytest.raises(MeshError, match=r"device .* has no place in a TPU topology; give TPU"):
        topology_of(jax.devices())
    with pytest.raises(MeshError, match="process 1 has 1 of the TPU devices and process 0 has 4"):
        topology_of(tpu_slice([4, 2, 1, 1])[:5])
    both = tpu_slice([2, 2, 1, 1]) + tpu_slice([2, 2, 1, 1], slice_index=1)
    with pytest.raises(MeshError, match=r"are of 2 TPU slices, \[0, 1\], whose coordinates"):
        topology_of(both)
    twice = FakeTpu(7, 0, (0, 0, 0))
    with pytest.raises(MeshError, match="has 2 devices at 1 places"):
        topology_of([twice, twice])
