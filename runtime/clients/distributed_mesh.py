"""A mesh over the devices of all clients."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence

import jax

from dtensor.dialect.device_spec import DeviceSpec
from dtensor.dialect.errors import ConfigError, MeshError
from dtensor.dialect.mesh import XLA_SPMD, Mesh
from dtensor.runtime import client, naming
from dtensor.runtime.clients import agreement, config, environment


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

    Example:
        >>> dtensor.initialize_accelerator_system("CPU")
        'CPU'
        >>> dtensor.create_distributed_mesh([("x", 2), ("y", 4)])
        Mesh(x=2, y=4)
    """
    if use_xla_spmd:
        raise MeshError(XLA_SPMD)
    if config.chosen is None:
        raise ConfigError(
            "accelerators are uninitialized; call dtensor.initialize_accelerator_system() first"
        )
    axes = Mesh(mesh_dims).axes
    kind = config.checked_device_type(device_type or config.default_device_type())
    if kind == "TPU" and local_devices is not None:
        raise MeshError(
            "local_devices was given for a TPU mesh, which always has all devices; leave it out"
        )
    chosen = config.local_jax_devices(kind)
    if local_devices is not None:
        chosen = _own(local_devices, kind)
        kind = client.common_type(chosen, device_type)
    everywhere = _exchange(axes, mesh_name, kind, naming.names_of(chosen))
    if kind == "TPU":
        from dtensor.runtime.tpu.mesh import create_tpu_mesh

        return create_tpu_mesh([axis for axis, _ in axes], [size for _, size in axes], mesh_name)
    size = math.prod(size for _, size in axes)
    if len(everywhere) != size:
        raise MeshError(
            f"{Mesh(axes).short()} has {size} places, but there are {len(everywhere)} {kind} "
            f"devices ({len(chosen)} per client * {environment.num_clients()} clients); the sizes "
            "must multiply to that"
        )
    return client.create_mesh(axes, mesh_name, everywhere, kind)


def _own(names: Sequence[str | DeviceSpec], kind: str) -> list[jax.Device]:
    """The devices of these names, which are this client's."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise MeshError(f"local_devices is {names!r}; give a list of names")
    chosen = [naming.as_device(name, kind) for name in names]
    odd = next((device for device in chosen if device.process_index != jax.process_index()), None)
    if odd is not None:
        raise MeshError(f"local_devices names {odd}, which is not one of this client's")
    if len(set(chosen)) < len(chosen):
        raise MeshError(f"local_devices names a device twice: {chosen}")
    return chosen


def _exchange(
    axes: Sequence[tuple[str, int]], name: str, kind: str, devices: Sequence[str]
) -> list[str]:
    """The devices of all clients, by name, if the clients agree about the mesh."""
    if environment.num_clients() == 1:
        return list(devices)
    facts = {
        "the dimensions": ", ".join(f"{axis}={size}" for axis, size in axes),
        "the name": repr(name),
        "the device type": kind,
        "the number of devices": str(len(devices)),
    }
    everyone = range(jax.process_count())
    own = {f"{fact} of distributed mesh {{}}": text for fact, text in facts.items()}
    what = "create_distributed_mesh"
    agreement.agree(what, everyone, own, "all clients must ask for the same mesh")
    _, found = agreement.exchange(f"{what} of devices", everyone, json.dumps(devices))
    return [device for client_id in everyone for device in json.loads(found[client_id])]
