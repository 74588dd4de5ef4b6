"""The message tensorflow.tpu.TopologyProto, as protobuf knows it, as far as it is read here.

message TopologyProto {
repeated int32 mesh_shape = 1;
int32 num_tasks = 2;
int32 num_tpu_devices_per_task = 3;
repeated int32 device_coordinates = 4;  // task, device, axis; the axis varies fastest
}

Its other field, tpu_hardware_feature, is a message that protobuf keeps without knowing it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from dtensor.dialect.errors import MeshError

_FIELDS = ("mesh_shape", "num_tasks", "num_tpu_devices_per_task", "device_coordinates")
_REPEATED = ("mesh_shape", "device_coordinates")


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
    kinds, package = descriptor_pb2.FieldDescriptorProto, "tensorflow.tpu"
    file = descriptor_pb2.FileDescriptorProto(
        name="topology.proto", package=package, syntax="proto3"
    )
    message = file.message_type.add(name="TopologyProto")
    for number, name in enumerate(_FIELDS, 1):
        label = kinds.LABEL_REPEATED if name in _REPEATED else kinds.LABEL_OPTIONAL
        message.field.add(name=name, number=number, label=label, type=kinds.TYPE_INT32)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.TopologyProto"))
