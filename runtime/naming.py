"""What devices are called: jax's devices under TensorFlow's names, and the devices of meshes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from numbers import Integral

import jax

from dtensor.dialect.device_spec import DeviceSpec
from dtensor.dialect.errors import MeshError, NotFoundError
from dtensor.runtime.clients import coordination
from dtensor.runtime.clients.environment import job_name as job_name

PLATFORMS = {"CPU": ("cpu",), "GPU": ("cuda", "rocm", "gpu"), "TPU": ("tpu",)}
_TYPES = {platform: kind for kind, platforms in PLATFORMS.items() for platform in platforms}


def devices_of_type(device_type: str) -> list[jax.Device]:
    """All devices of a type, of every client, in jax's order; none if jax has no such platform."""
    for platform in PLATFORMS.get(device_type, (device_type.lower(),)):
        try:
            return list(jax.devices(platform))
        except _NONE:
            continue
    return []


def first_device() -> jax.Device:
    """The first device of the platform that jax chooses.

    Raises:
        NotFoundError: jax starts on none of the platforms that the environment names.
    """
    try:
        return jax.devices()[0]
    except _NONE as error:
        wanted = jax.config.jax_platforms or "''"  # type: ignore[attr-defined]
        said = str(error).partition(". (set JAX_PLATFORMS")[0]
        raise NotFoundError(
            f"jax finds no device with JAX_PLATFORMS={wanted}{said and f' ({said})'}; install jax "
            "for it, or let JAX_PLATFORMS name what is here"
        ) from None


# What jax raises where it has no such platform; the second where JAX_PLATFORMS names only such.
_NONE = RuntimeError, AssertionError


def type_of_device(device: jax.Device) -> str:
    """The type, "CPU", "GPU" or "TPU", of a device; jax's own word for others."""
    return _TYPES.get(device.platform, str(device.platform).upper())


def find_device(spec: DeviceSpec) -> jax.Device | None:
    """The device that `spec` names; None if there is none. Without a task it is this client's."""
    if spec.job not in (None, job_name()):
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
            names = " to ".join(names_of(have[:1] + have[-1:])) or "none"
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


def names_of(devices: Sequence[jax.Device]) -> tuple[str, ...]:
    """The names of devices; those of a topology that is not here are numbered among themselves."""
    here = _places(type_of_device(devices[0])) if devices else {}
    absent = sorted({device for device in devices if device not in here}, key=lambda d: d.id)
    places, job = {**here, **_numbered(absent)}, job_name()
    return tuple(
        DeviceSpec(job, 0, places[d][0], type_of_device(d), places[d][1]).to_string()
        for d in devices
    )


def _numbered(devices: Sequence[jax.Device]) -> dict[jax.Device, tuple[int, int]]:
    """The client of each device, and its number among those of the client."""
    seen: Counter[int] = Counter()
    places = {}
    for device in devices:
        task = device.process_index
        places[device] = task, seen[task]
        seen[task] += 1
    return places


@cache
def _places(device_type: str) -> dict[jax.Device, tuple[int, int]]:
    return _numbered(devices_of_type(device_type))


@cache
def _by_place(device_type: str) -> dict[tuple[int, int], jax.Device]:
    return {place: device for device, place in _places(device_type).items()}


coordination.resets += [_places.cache_clear, _by_place.cache_clear]
