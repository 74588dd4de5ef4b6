"""TopologyProto in wire format: as TensorFlow writes it, and what is refused."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtensor.dialect.errors import MeshError
from dtensor.runtime.tpu import topology_proto
from dtensor.runtime.tpu.topology_proto import TopologyProto

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)

# A v2-8: 2x2 chips of 2 cores, one task. By hand, from the encoding that protobuf.dev describes.
V2_8 = (
    b"\x0a\x04\x02\x02\x01\x02"  # mesh_shape, packed
    b"\x10\x01\x18\x08"  # num_tasks, num_tpu_devices_per_task
    b"\x22\x20"  # device_coordinates, packed: x, y, z, core
    b"\x00\x00\x00\x00\x00\x00\x00\x01\x01\x00\x00\x00\x01\x00\x00\x01"
    b"\x00\x01\x00\x00\x00\x01\x00\x01\x01\x01\x00\x00\x01\x01\x00\x01"
    b"\x2a\x02\x08\x01"  # tpu_hardware_feature
)
CORES = [(x, y, 0, core) for y in range(2) for x in range(2) for core in range(2)]
MESSAGE = TopologyProto((2, 2, 1, 2), 1, 8, tuple(n for core in CORES for n in core), 1)


def test_a_message_as_it_is_written() -> None:
    assert MESSAGE.serialize() == V2_8
    assert TopologyProto.parse(V2_8) == MESSAGE


@given(
    st.builds(
        TopologyProto,
        st.lists(INT32).map(tuple),
        INT32,
        INT32,
        st.lists(INT32).map(tuple),
        st.none() | st.integers(0, 5),
    )
)
def test_what_is_written_is_read_back(proto: TopologyProto) -> None:
    assert TopologyProto.parse(proto.serialize()) == proto


def test_lists_that_are_not_packed_and_unknown_fields_are_read() -> None:
    unpacked = b"".join(b"\x08" + bytes([size]) for size in MESSAGE.mesh_shape)
    later = b"\xa2\x38\x05later"  # field 900, a text
    assert TopologyProto.parse(unpacked + V2_8[6:] + later) == MESSAGE


def test_what_is_refused() -> None:
    for data in (V2_8[:5], b"\x10\x01\x07", b"\x4b" * 200 + b"\x4c" * 200):
        with pytest.raises(MeshError, match=r"malformed TopologyProto: .*; give bytes of a serial"):
            TopologyProto.parse(data)
    with pytest.raises(MeshError, match=r"its numbers have 32 bits \(.*2147483648"):
        TopologyProto(num_tasks=1 << 31).serialize()


def test_a_missing_protobuf_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    topology_proto._message_class.cache_clear()
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(MeshError, match="install it with pip install protobuf"):
        TopologyProto.parse(V2_8)
