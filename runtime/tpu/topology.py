"""The topology of a TPU system: which process drives the core at which coordinates."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from functools import cache
from typing import Any

import jax
import numpy as np

from dtensor.dialect.errors import MeshError

Coordinates = Sequence[int] | np.ndarray[Any, Any]
"""x, y, z and core of one device."""

_AXES = ("x", "y", "z", "core")
_RANK = len(_AXES)


class Topology:
    """The shape of a TPU system's grid of cores, and where in it each device is.

    Coordinates are always x, y, z and core. Two topologies are equal if shape and coordinates are.

    Args:
        serialized: a TopologyProto in wire format; it is given alone.
        mesh_shape: cores along x, y, z and core.
        device_coordinates: whole numbers of shape [tasks, devices per task, 4]: where each TPU
            device of each task (a process) is.

    Attributes:
        mesh_shape: cores along x, y, z and core: int32[4].
        mesh_rank: number of axes: 4.
        device_coordinates: where each device of each task is: int32[tasks, devices per task, 4].
        num_tasks: number of tasks, which are processes with TPU devices.
        num_tpus_per_task: number of TPU devices of each task.

    Raises:
        MeshError: an argument is missing, malformed or does not agree with another.
    """

    def __init__(
        self,
        serialized: bytes | bytearray | memoryview | None = None,
        mesh_shape: Sequence[int] | np.ndarray[Any, Any] | None = None,
        device_coordinates: Sequence[Any] | np.ndarray[Any, Any] | None = None,
    ) -> None:
        self._serialized = None
        if serialized is not None:
            if mesh_shape is not None or device_coordinates is not None:
                raise MeshError(
                    "a topology is given either as `serialized`, or as `mesh_shape` and "
                    "`device_coordinates`; leave one out"
                )
            mesh_shape, device_coordinates = _read(serialized)
            self._serialized = bytes(serialized)
        self.mesh_shape = _integers(mesh_shape, "mesh_shape", "a sequence of 4 positive entries", 1)
        self.mesh_rank = _RANK
        self.device_coordinates = _integers(
            device_coordinates, "device_coordinates", "a rank 3 int32 array with 4 in a row", 3
        )
        self.num_tasks, self.num_tpus_per_task, _ = self.device_coordinates.shape
        rows: Any = self.device_coordinates.tolist()
        self._places = {tuple(at): (t, d) for t, row in enumerate(rows) for d, at in enumerate(row)}
        shape, flat = self.mesh_shape.tolist(), self.device_coordinates.reshape(-1, _RANK)
        if min(shape) < 1:
            raise MeshError(f"`mesh_shape` must be a sequence of 4 positive entries; got {shape}")
        outside = flat[((flat < 0) | (flat >= shape)).any(axis=1)]
        if len(outside):
            raise MeshError(
                f"`device_coordinates` must be >= 0 and below `mesh_shape` {shape}; got "
                f"{outside[0].tolist()}"
            )
        if len(self._places) < len(flat):
            raise MeshError(
                f"`device_coordinates` has {len(flat)} devices at {len(self._places)} places; each "
                "device has coordinates of its own"
            )

    @property
    def missing_devices(self) -> np.ndarray[Any, Any]:
        """Coordinates inside `mesh_shape` at which no device is: int64[missing, 4]."""
        cells = np.ndindex(*self.mesh_shape.tolist())
        missing = [cell for cell in cells if cell not in self._places]
        return np.array(missing, np.int64).reshape(-1, _RANK)

    def task_ordinal_at_coordinates(self, device_coordinates: Coordinates) -> int:
        """Number of the task whose device is at x, y, z and core.

        Raises:
            MeshError: no device is there.
        """
        return self._place(device_coordinates)[0]

    def tpu_device_ordinal_at_coordinates(self, device_coordinates: Coordinates) -> int:
        """Number, among the devices of its task, of the device at x, y, z and core.

        Raises:
            MeshError: no device is there.
        """
        return self._place(device_coordinates)[1]

    def serialized(self) -> bytes:
        """The topology as a TopologyProto in wire format; the bytes it was read from, if any."""
        if self._serialized is None:
            message = topology_proto()(
                mesh_shape=self.mesh_shape.tolist(),
                num_tasks=self.num_tasks,
                num_tpu_devices_per_task=self.num_tpus_per_task,
                device_coordinates=self.device_coordinates.ravel().tolist(),
            )
            self._serialized = bytes(message.SerializeToString(deterministic=True))
        return self._serialized

    def _place(self, coordinates: Coordinates) -> tuple[int, int]:
        at = tuple(np.ravel(coordinates).tolist())
        if at not in self._places:
            shape = self.mesh_shape.tolist()
            raise MeshError(
                f"no TPU device is at coordinates {list(at)}; give x, y, z and core inside "
                f"{shape}, of which {len(self.missing_devices)} are missing"
            )
        return self._places[at]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Topology):
            return NotImplemented
        return np.array_equal(self.mesh_shape, other.mesh_shape) and np.array_equal(
            self.device_coordinates, other.device_coordinates
        )

    def __hash__(self) -> int:
        return hash((self.mesh_shape.tobytes(), self.device_coordinates.tobytes()))

    def __repr__(self) -> str:
        shape = ", ".join(f"{a}={n}" for a, n in zip(_AXES, self.mesh_shape, strict=True))
        counts = zip((self.num_tasks, self.num_tpus_per_task), ("task", "device"), strict=True)
        each = " of ".join(f"{number} {what}{'s'[: number != 1]}" for number, what in counts)
        missing = len(self.missing_devices)
        return f"Topology({shape}; {each}{f', {missing} missing' if missing else ''})"


def topology_of(devices: Any) -> Topology:
    """The topology of TPU devices.

    Tasks are in the order of their processes, and the devices of a task in the order of their ids.

    Args:
        devices: jax TPU devices of one slice, or what `jax.experimental.topologies` describes.

    Raises:
        MeshError: there are none, they are no TPUs, or processes have different numbers of them.
    """
    listed = device_list(devices)
    tasks: dict[int, list[jax.Device]] = {}
    for device in sorted(listed, key=lambda device: (device.process_index, device.id)):
        tasks.setdefault(device.process_index, []).append(device)
    counts = {process: len(of) for process, of in tasks.items()}
    if len(set(counts.values())) > 1:
        few, many = min(counts, key=counts.__getitem__), max(counts, key=counts.__getitem__)
        raise MeshError(
            f"process {few} has {counts[few]} of the TPU devices and process {many} has "
            f"{counts[many]}; a topology needs as many from each"
        )
    coordinates = np.array([[device_location(d) for d in of] for of in tasks.values()])
    shape = coordinates.reshape(-1, _RANK).max(axis=0) + 1
    return Topology(mesh_shape=shape, device_coordinates=coordinates)


def device_list(devices: Any) -> list[jax.Device]:
    """The devices of a topology description, or those of a sequence; all of one slice.

    Raises:
        MeshError: there are none, or they are of several slices.
    """
    listed = list(getattr(devices, "devices", devices))
    if not listed or isinstance(devices, str):
        raise MeshError("no devices were given; a TPU topology has at least one")
    slices = sorted({getattr(device, "slice_index", None) or 0 for device in listed})
    if len(slices) > 1:
        raise MeshError(
            f"the devices are of {len(slices)} TPU slices, {slices}, whose coordinates have "
            "nothing to do with each other; give the devices of one slice"
        )
    return listed


def device_location(device: Any) -> tuple[int, int, int, int]:
    """Where a TPU device is: x, y, z and core.

    Raises:
        MeshError: it is no TPU.
    """
    if getattr(device, "coords", None) is None:
        raise MeshError(f"device {device} has no place in a TPU topology; give TPU devices")
    x, y, z = device.coords
    return int(x), int(y), int(z), int(device.core_on_chip)


@cache
def topology_proto() -> Any:
    """The class of tensorflow.tpu.TopologyProto, as far as it is read here.

    It is in a pool of its own: TensorFlow, if it is there, registers another. What the message has
    beside, tpu_hardware_feature, protobuf keeps without knowing it.

    Raises:
        MeshError: protobuf is not installed.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError as error:
        raise MeshError(
            f"TopologyProto needs protobuf, which cannot be imported ({error}); install it with "
            "pip install protobuf"
        ) from None
    names = ("mesh_shape", "num_tasks", "num_tpu_devices_per_task", "device_coordinates")
    file = descriptor_pb2.FileDescriptorProto(
        name="topology.proto", package="tensorflow.tpu", syntax="proto3"
    )
    message = file.message_type.add(name="TopologyProto")
    for number, name in enumerate(names, 1):
        label = "LABEL_OPTIONAL" if name.startswith("num_") else "LABEL_REPEATED"
        message.field.add(name=name, number=number, label=label, type="TYPE_INT32")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName("tensorflow.tpu.TopologyProto")
    )


def _read(serialized: object) -> tuple[Any, Any]:
    if not isinstance(serialized, bytes | bytearray | memoryview):
        raise MeshError(
            f"`serialized` is of type {type(serialized).__name__}; give the bytes of a serialised "
            "TopologyProto"
        )
    proto = topology_proto()()
    try:
        proto.ParseFromString(bytes(serialized))
        sizes = np.array((proto.num_tasks, proto.num_tpu_devices_per_task, _RANK), np.uint32)
        coordinates = np.array(proto.device_coordinates, np.int64).reshape(sizes)
        return np.array(proto.mesh_shape, np.int64), coordinates
    except Exception as error:  # google.protobuf.message.DecodeError, or numpy's of the sizes
        raise MeshError(
            f"malformed TopologyProto: {error}; give bytes of a serialised TopologyProto"
        ) from None


def _integers(value: Any, what: str, needed: str, rank: int) -> np.ndarray[Any, Any]:
    """The value as an array of so many dimensions, the last of 4: int32, not to be written."""
    try:
        given = np.array(value)
        array = given.astype(np.int32)
        fits = bool((array == given).all()) and array.ndim == rank and array.shape[-1] == _RANK
    except (TypeError, ValueError):  # ValueError: rows of different lengths
        fits = False
    if not fits:
        raise MeshError(f"`{what}` must be {needed}; got {reprlib.repr(value)}")
    array.setflags(write=False)
    return array
