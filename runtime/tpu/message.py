"""The message tensorflow.tpu.TopologyProto, as protobuf knows it.

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


@cache
def topology_proto() -> Any:
    """The message's class, in a pool of its own: TensorFlow, if it is there, registers another.

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
