"""What devices are called: jax's devices under TensorFlow's names, and the devices of meshes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from numbers import Integral

import jax

from dtensor.dialect.device_spec import DeviceSpec
from dtensor.dialect.errors import MeshError
from dtensor.runtime.clients.environment import job_name as job_name

PLATFORMS = {"CPU": ("cpu",), "GPU": ("cuda", "rocm", "gpu"), "TPU": ("tpu",)}


def devices_of_type(device_type: str) -> list[jax.Device]:
    """All devices of a type, of every client, in jax's order; none if jax has no such platform."""
    for platform in PLATFORMS.get(device_type, (device_type.lower(),)):
        try:
            return list(jax.devices(platform))
        except RuntimeError:  # jax has no such platform
            continue
    return []


def type_of_device(device: jax.Device) -> str:
    """The type, "CPU", "GPU" or "TPU", of a device; jax's own word for others."""
    for device_type, platforms in PLATFORMS.items():
        if device.platform in platforms:
            return device_type
    return str(device.platform).upper()


def device_spec(device: jax.Device, job: str | None = None) -> DeviceSpec:
    """The name of a device: its client, and its number among the client's devices of its type.

    Args:
        device: the device.
        job: the job's name, for those who name many devices; None looks it up.
    """
    device_type = type_of_device(device)
    task, index = _places(device_type).get(device, (device.process_index, device.id))
    return DeviceSpec(job or job_name(), 0, task, device_type, index)


def find_device(spec: DeviceSpec) -> jax.Device | None:
    """The device that `spec` names; None if there is none. A part it leaves out fits any client's.

    Raises:
        MeshError: the job is another one.
    """
    if spec.job is not None and spec.job != job_name():
        return None
    task = jax.process_index() if spec.task is None else spec.task
    return _by_place(spec.device_type).get((task, spec.device_index))


def as_device(given: jax.Device | int | str | DeviceSpec, device_type: str) -> jax.Device:
    """The device that was given as itself, by its id among those of `device_type`, or by its name.

    Raises:
        MeshError: there is no such device.
    """
    if isinstance(given, str):
        given = DeviceSpec.from_string(given)
    if isinstance(given, DeviceSpec):
        found = find_device(given)
        if found is None:
            have = devices_of_type(given.device_type)
            names = f"{device_spec(have[0])} to {device_spec(have[-1])}" if have else "none"
            raise MeshError(
                f"unknown device {given}; the {given.device_type} devices here are {names}"
            )
        return found
    if isinstance(given, bool) or not isinstance(given, Integral):
        if not hasattr(given, "device_kind"):
            raise MeshError(f"{given!r} is no device; give a jax device, its id or its name")
        return given
    by_id = {device.id: device for device in devices_of_type(device_type)}
    if given not in by_id:
        raise MeshError(f"jax has no device of id {given}; it has {sorted(by_id)}")
    return by_id[given]


@cache
def _places(device_type: str) -> dict[jax.Device, tuple[int, int]]:
    seen: Counter[int] = Counter()
    places = {}
    for device in devices_of_type(device_type):
        places[device] = (device.process_index, seen[device.process_index])
        seen[device.process_index] += 1
    return places


@cache
def _by_place(device_type: str) -> dict[tuple[int, int], jax.Device]:
    return {place: device for device, place in _places(device_type).items()}


def forget() -> None:
    """Look at jax's devices anew: it was started again."""
    _places.cache_clear()
    _by_place.cache_clear()


def names_of(devices: Sequence[jax.Device]) -> tuple[str, ...]:
    """The names of devices; those of a topology that is not here are numbered among themselves."""
    places = _places(type_of_device(devices[0])) if devices else {}
    absent = sorted((d for d in devices if d not in places), key=lambda device: device.id)
    seen: Counter[int] = Counter()
    specs = {}
    job = job_name()
    for device in absent:
        task = device.process_index
        specs[device] = DeviceSpec(job, 0, task, type_of_device(device), seen[task])
        seen[task] += 1
    return tuple((specs.get(device) or device_spec(device, job)).to_string() for device in devices)
