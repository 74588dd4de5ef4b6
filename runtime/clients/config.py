"""Which clients and devices there are: the questions a program asks before it makes a mesh."""

from __future__ import annotations

import os
import re
from numbers import Integral
from typing import Any

import jax

from dtensor.dialect.device_spec import DEVICE_TYPES, DeviceSpec
from dtensor.dialect.errors import ConfigError
from dtensor.runtime import naming
from dtensor.runtime.clients import coordination, environment
from dtensor.runtime.clients.environment import client_id as client_id
from dtensor.runtime.clients.environment import full_job_name as full_job_name
from dtensor.runtime.clients.environment import heartbeat_enabled as heartbeat_enabled
from dtensor.runtime.clients.environment import job_name as job_name
from dtensor.runtime.clients.environment import jobs as jobs
from dtensor.runtime.clients.environment import num_clients as num_clients

_FLAG = re.compile(r"--xla_force_host_platform_device_count=(\d+)")
_BY_PREFERENCE = ("TPU", "GPU", "CPU")
_chosen: list[str] = []


def preferred_device_type() -> str:
    """The best device type there is: TPU before GPU before CPU; jax's own word for others."""
    with coordination.only_asking():
        for device_type in _BY_PREFERENCE:
            if naming.devices_of_type(device_type):
                return device_type
        return naming.type_of_device(jax.devices()[0])


def default_device_type() -> str:
    """The type of a mesh that names none: what `initialize_accelerator_system` chose, or jax."""
    return _chosen[0] if _chosen else naming.type_of_device(jax.devices()[0])


def chosen_device_type() -> str | None:
    """What `initialize_accelerator_system` chose; None if it has not been called."""
    return _chosen[0] if _chosen else None


def choose(device_type: str | None) -> None:
    """Remember what `initialize_accelerator_system` chose; None forgets it."""
    _chosen[:] = [] if device_type is None else [device_type]


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
    """
    kind = checked_device_type(device_type)
    task = client_id()
    if for_client_id is not None:
        task = environment.checked_client(for_client_id, "for_client_id")
    return [DeviceSpec(job_name(), 0, task, kind, i) for i in range(_count(kind, task))]


def num_local_devices(device_type: str) -> int:
    """How many devices of this type this client has.

    Raises:
        ConfigError: the type does not exist, or the clients are not connected yet.
    """
    return _count(checked_device_type(device_type), client_id())


def num_global_devices(device_type: str) -> int:
    """How many devices of this type all clients together have.

    Raises:
        ConfigError: the type does not exist, or the clients are not connected yet.
    """
    kind = checked_device_type(device_type)
    return sum(_count(kind, client) for client in range(num_clients()))


def local_jax_devices(device_type: str) -> list[jax.Device]:
    """This client's devices of a type, as jax's."""
    here = jax.process_index()
    return [d for d in naming.devices_of_type(device_type) if d.process_index == here]


def count_at_start() -> int:
    """How many CPU devices jax will have when it starts, as it is set up now."""
    settings: Any = jax.config  # its values are attributes that carry no types
    if settings.jax_num_cpu_devices >= 0:
        return int(settings.jax_num_cpu_devices)
    found = _FLAG.findall(os.environ.get("XLA_FLAGS", ""))
    return int(found[-1]) if found else 1


def check_count(count: int | None) -> None:
    """Raise ConfigError unless `count` is a number of devices, or None."""
    if count is None:
        return
    if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
        raise ConfigError(f"num_logical_cpu_devices is {count!r}; it must be a positive integer")


def _count(kind: str, client: int) -> int:
    if not coordination.jax_is_running():
        if jobs() and num_clients() > 1 and coordination.jax_process() is None:
            raise ConfigError(
                "the clients of DTENSOR_JOBS are not connected, so their devices are not known; "
                "call dtensor.initialize_accelerator_system() first"
            )
        if kind == "CPU" and num_clients() == 1:  # jax need not start, and its setup stays open
            return count_at_start()
    with coordination.only_asking():
        return sum(device.process_index == client for device in naming.devices_of_type(kind))
