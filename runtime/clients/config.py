"""Which devices there are: the questions a program asks before it makes a mesh."""

from __future__ import annotations

import jax

from dtensor.dialect.device_spec import DEVICE_TYPES, DeviceSpec
from dtensor.dialect.errors import ConfigError
from dtensor.runtime import naming
from dtensor.runtime.clients import coordination, environment

chosen: str | None = None
"""The device type that `initialize_accelerator_system` chose; None if it has not been called."""


def preferred_device_type() -> str:
    """The best device type there is: TPU before GPU before CPU; jax's own word for others.

    Example:
        >>> dtensor.preferred_device_type()
        'CPU'
    """
    with coordination.only_asking():
        for device_type in ("TPU", "GPU", "CPU"):
            if naming.devices_of_type(device_type):
                return device_type
        return naming.type_of_device(naming.first_device())


def default_device_type() -> str:
    """The type of a mesh that names none: what `initialize_accelerator_system` chose, or jax."""
    return chosen or naming.type_of_device(naming.first_device())


def checked_device_type(device_type: str) -> str:
    """The device type in capitals.

    Raises:
        ConfigError: it is none of "CPU", "GPU", "TPU".
    """
    if not isinstance(device_type, str) or device_type.upper() not in DEVICE_TYPES:
        allowed = ", ".join(DEVICE_TYPES)
        raise ConfigError(f"unknown device type {device_type!r}; it is one of {allowed}, or None")
    return device_type.upper()


def local_devices(device_type: str, for_client_id: int | None = None) -> list[DeviceSpec]:
    """The devices of a client, by name.

    Args:
        device_type: "CPU", "GPU" or "TPU".
        for_client_id: which client's; None is this one.

    Raises:
        ConfigError: the type or the client does not exist, or the clients are not connected yet.

    Example:
        >>> dtensor.local_devices("CPU")[3].to_string()
        '/job:localhost/replica:0/task:0/device:CPU:3'
    """
    kind, job = checked_device_type(device_type), environment.job_name()
    task = environment.client_id()
    if for_client_id is not None:
        task = environment.checked_client(for_client_id, "for_client_id")
    return [DeviceSpec(job, 0, task, kind, i) for i in range(_clients(kind).count(task))]


def num_local_devices(device_type: str) -> int:
    """How many devices of this type this client has.

    Raises:
        ConfigError: the type does not exist, or the clients are not connected yet.

    Example:
        >>> dtensor.num_local_devices("CPU")
        8
    """
    return len(local_devices(device_type))


def num_global_devices(device_type: str) -> int:
    """How many devices of this type all clients together have.

    Raises:
        ConfigError: the type does not exist, or the clients are not connected yet.

    Example:
        >>> dtensor.num_global_devices("CPU")
        8
    """
    return len(_clients(checked_device_type(device_type)))


def local_jax_devices(device_type: str) -> list[jax.Device]:
    """This client's devices of a type, as jax's."""
    devices = naming.devices_of_type(device_type)
    return [d for d in devices if d.process_index == jax.process_index()]


def _clients(kind: str) -> list[int]:
    """The client of each device of a type."""
    is_connected = coordination.jax_is_running() or coordination.jax_process() is not None
    if len(environment.jobs()) > 1 and not is_connected:
        raise ConfigError(
            "the clients of DTENSOR_JOBS are not connected, so their devices are not known; call "
            "dtensor.initialize_accelerator_system() first"
        )
    with coordination.only_asking():
        return [device.process_index for device in naming.devices_of_type(kind)]


def device_name() -> str:
    """The name that stands for all devices of a mesh together, as TensorFlow DTensor writes it.

    Such as `/job:localhost/replica:0/task:0/device:CUSTOM:0`. jax has no device of this name and
    needs none: a program runs on the mesh of its arrays, or on the default mesh. It is here for
    programs that print or compare it.

    Example:
        >>> dtensor.device_name()
        '/job:localhost/replica:0/task:0/device:CUSTOM:0'
    """
    return DeviceSpec(environment.job_name(), 0, jax.process_index(), "CUSTOM", 0).to_string()
