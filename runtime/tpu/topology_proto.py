"""The message tensorflow.tpu.TopologyProto, through protobuf.

message TPUHardwareFeature { EmbeddingFeature embedding_feature = 1; }  // an enum
message TopologyProto {
repeated int32 mesh_shape = 1;
int32 num_tasks = 2;
int32 num_tpu_devices_per_task = 3;
repeated int32 device_coordinates = 4;  // task, device, axis; the axis varies fastest
TPUHardwareFeature tpu_hardware_feature = 5;
}
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from dtensor.dialect.errors import MeshError

# Fields by message: name, number, and what the descriptor says of their type.
_FIELDS = {
    "TPUHardwareFeature": (("embedding_feature", 1, "TYPE_INT32", False),),  # as enums are written
    "TopologyProto": (
        ("mesh_shape", 1, "TYPE_INT32", True),
        ("num_tasks", 2, "TYPE_INT32", False),
        ("num_tpu_devices_per_task", 3, "TYPE_INT32", False),
        ("device_coordinates", 4, "TYPE_INT32", True),
        ("tpu_hardware_feature", 5, "TYPE_MESSAGE", False),
    ),
}


@dataclass(frozen=True)
class TopologyProto:
    """The geometry of a TPU system, as the message says it; nothing is checked but the ranges.

    Attributes:
        mesh_shape: cores along x, y, z and core.
        num_tasks: number of processes.
        num_tpu_devices_per_task: TPU devices of each process.
        device_coordinates: x, y, z and core of each device of each process, flattened.
        embedding_feature: what lookup of embeddings the hardware has, 0 is none; None says nothing.
    """

    mesh_shape: tuple[int, ...] = ()
    num_tasks: int = 0
    num_tpu_devices_per_task: int = 0
    device_coordinates: tuple[int, ...] = ()
    embedding_feature: int | None = None

    def serialize(self) -> bytes:
        """The message in wire format.

        Raises:
            MeshError: a number does not fit 32 bits, or protobuf is not installed.
        """
        message = _message_class()()
        try:
            message.mesh_shape.extend(self.mesh_shape)
            message.num_tasks = self.num_tasks
            message.num_tpu_devices_per_task = self.num_tpu_devices_per_task
            message.device_coordinates.extend(self.device_coordinates)
            if self.embedding_feature is not None:
                message.tpu_hardware_feature.SetInParent()
                message.tpu_hardware_feature.embedding_feature = self.embedding_feature
        except ValueError as error:
            raise MeshError(
                f"a TopologyProto cannot hold a number of {self}; its numbers have 32 bits "
                f"({error})"
            ) from None
        return bytes(message.SerializeToString(deterministic=True))

    @classmethod
    def parse(cls, data: bytes) -> TopologyProto:
        """The message that `data` holds in wire format.

        Raises:
            MeshError: `data` is not a message, or protobuf is not installed.
        """
        message = _message_class()()
        try:
            message.ParseFromString(data)
        except Exception as error:  # google.protobuf.message.DecodeError
            raise MeshError(
                f"malformed TopologyProto: {error}; give bytes of a serialised TopologyProto"
            ) from None
        feature = message.tpu_hardware_feature.embedding_feature
        return cls(
            tuple(message.mesh_shape),
            message.num_tasks,
            message.num_tpu_devices_per_task,
            tuple(message.device_coordinates),
            feature if message.HasField("tpu_hardware_feature") else None,
        )


@cache
def _message_class() -> Any:
    """The message's class, in a pool of its own: TensorFlow, if it is there, registers another."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError as error:
        raise MeshError(
            f"TopologyProto needs protobuf, which cannot be imported ({error}); install it with "
            "pip install protobuf"
        ) from None
    kinds = descriptor_pb2.FieldDescriptorProto
    package = "tensorflow.tpu"
    file = descriptor_pb2.FileDescriptorProto(
        name="topology.proto", package=package, syntax="proto3"
    )
    for message, fields in _FIELDS.items():
        described = file.message_type.add(name=message)
        for name, number, kind, many in fields:
            label = kinds.LABEL_REPEATED if many else kinds.LABEL_OPTIONAL
            field = described.field.add(
                name=name, number=number, label=label, type=kinds.Type.Value(kind)
            )
            if kind == "TYPE_MESSAGE":
                field.type_name = f".{package}.TPUHardwareFeature"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.TopologyProto"))
