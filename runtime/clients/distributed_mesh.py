"""A mesh over the devices of all clients."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence

import jax

from dtensor.dialect.device_spec import DeviceSpec
from dtensor.dialect.errors import ClientError, ConfigError, MeshError
from dtensor.dialect.mesh import XLA_SPMD, Mesh
from dtensor.runtime import client, naming
from dtensor.runtime.clients import accelerators, config, environment
from dtensor.runtime.clients import agreement as distributed


def create_distributed_mesh(
    mesh_dims: Mapping[str, int] | Iterable[tuple[str, int]],
    mesh_name: str = "",
    local_devices: Sequence[str | DeviceSpec] | None = None,
    device_type: str | None = None,
    use_xla_spmd: bool = False,
) -> Mesh:
    """A mesh over the devices of all clients; every client must call it alike.

    The devices of one client follow one another in row-major order: with 2 clients of 4 devices, a
    mesh of 4 x 2 has the first two rows on client 0.

    Args:
        mesh_dims: `(name, size)` pairs or a mapping, major axis first; sizes in devices.
        mesh_name: name of the mesh, an identifier.
        local_devices: which of its devices this client gives, as names such as `CPU:3`, in the
            order of the mesh; None is all of them. Not for TPUs.
        device_type: "CPU", "GPU" or "TPU"; None is the type of `local_devices`, else the one that
            `initialize_accelerator_system` chose.
        use_xla_spmd: False; programs are never left to XLA's own partitioner.

    Raises:
        ConfigError: the accelerator system is not initialized, or the device type is not one.
        MeshError: the devices do not fit the mesh, or an axis is malformed.
        ClientError: the clients disagree about the mesh, or one did not come in time.
    """
    if use_xla_spmd:
        raise MeshError(XLA_SPMD)
    if not accelerators.is_initialized():
        raise ConfigError(
            "accelerators are uninitialized; call dtensor.initialize_accelerator_system() first"
        )
    axes = Mesh(mesh_dims).axes
    kind = _type_of(local_devices, device_type)
    if kind == "TPU":
        return _tpu_mesh(axes, mesh_name, local_devices)
    chosen = config.local_devices(kind)
    if local_devices is not None:
        chosen = [_own_device(device, kind) for device in local_devices]
    if len(set(chosen)) < len(chosen):
        raise MeshError(f"local_devices names a device twice: {_names(chosen)}")
    everywhere = _exchange(axes, mesh_name, kind, chosen)
    size = math.prod(size for _, size in axes)
    if len(everywhere) != size:
        raise MeshError(
            f"{Mesh(axes).short()} has {size} places, but there are {len(everywhere)} {kind} "
            f"devices ({len(chosen)} per client * {environment.num_clients()} clients); the sizes "
            "must multiply to that"
        )
    devices = [naming.as_device(name, kind) for name in everywhere]
    return client.create_mesh(axes, mesh_name, devices, kind)


def _type_of(local_devices: Sequence[str | DeviceSpec] | None, device_type: str | None) -> str:
    asked = None if device_type is None else config.checked_device_type(device_type)
    if local_devices is None:
        return asked or config.default_device_type()
    if isinstance(local_devices, str) or not isinstance(local_devices, Sequence):
        raise MeshError(f"local_devices is {local_devices!r}; give a list of names")
    if not local_devices:
        raise MeshError("local_devices is empty; name this client's devices, or leave it out")
    kinds = sorted({_spec(device).device_type for device in local_devices})
    if len(kinds) > 1:
        raise MeshError(f"local_devices are of several types, {', '.join(kinds)}; use one")
    if asked is not None and kinds[0] != asked:
        raise MeshError(f"local_devices are of type {kinds[0]} but device_type is {device_type}")
    return config.checked_device_type(kinds[0])


def _spec(device: str | DeviceSpec) -> DeviceSpec:
    if isinstance(device, str):
        return DeviceSpec.from_string(device)
    if not isinstance(device, DeviceSpec):
        raise MeshError(f"local_devices has {device!r}; give names, such as CPU:3, or DeviceSpecs")
    return device


def _own_device(device: str | DeviceSpec, kind: str) -> DeviceSpec:
    own = config.local_devices(kind)
    if not own:
        raise MeshError(f"local_devices names {device}, but this client has no {kind} device")
    spec = _spec(device)
    found = [
        one
        for one in own
        if spec.device_index == one.device_index
        and spec.job in (None, one.job)
        and spec.task in (None, one.task)
    ]
    if not found:
        raise MeshError(
            f"local_devices names {device}, which is not one of this client's: {own[0]} to "
            f"{own[-1]}"
        )
    return found[0]


def _names(devices: Sequence[DeviceSpec]) -> str:
    return ", ".join(f"{device.device_type}:{device.device_index}" for device in devices)


def _exchange(
    axes: Sequence[tuple[str, int]], name: str, kind: str, chosen: Sequence[DeviceSpec]
) -> list[str]:
    """The devices of all clients, by name, if the clients agree about the mesh."""
    if environment.num_clients() == 1:
        return [device.to_string() for device in chosen]
    facts = {
        "dimensions": ", ".join(f"{axis}={size}" for axis, size in axes),
        "names": repr(name),
        "device types": kind,
        "numbers of devices": str(len(chosen)),
    }
    message = json.dumps({"facts": facts, "devices": [str(device) for device in chosen]})
    everyone = range(jax.process_count())
    number, texts = distributed.exchange("create_distributed_mesh", everyone, message)
    found = {client_id: json.loads(text) for client_id, text in texts.items()}
    for fact in facts:
        values = {client_id: said["facts"][fact] for client_id, said in found.items()}
        odd = distributed.odd_ones(values)
        if odd is None:
            continue
        if fact == "numbers of devices":
            values = {i: _short_names(said["devices"]) for i, said in found.items()}
        who = (
            f"{environment.client_names(odd)} differ{'s'[: len(odd) == 1]}"
            if odd
            else "they differ"
        )
        raise ClientError(
            f"the clients disagree about distributed mesh {number}: {who} in {fact}: "
            f"{distributed.by_value(values)}; all clients must ask for the same mesh"
        )
    return [device for client_id in everyone for device in found[client_id]["devices"]]


def _short_names(devices: Sequence[str]) -> str:
    return f"{len(devices)} ({_names([DeviceSpec.from_string(device) for device in devices])})"


def _tpu_mesh(
    axes: Sequence[tuple[str, int]], name: str, local_devices: Sequence[str | DeviceSpec] | None
) -> Mesh:
    if local_devices is not None:
        raise MeshError(
            "local_devices was given for a TPU mesh, which always has all devices; leave it out"
        )
    from dtensor.runtime.tpu.mesh import create_tpu_mesh

    _exchange(axes, name, "TPU", config.local_devices("TPU"))
    return create_tpu_mesh([axis for axis, _ in axes], [size for _, size in axes], name)
