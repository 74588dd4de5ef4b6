"""The devices: which there are, and meshes over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax

from dtensor.dialect.device_spec import DeviceSpec
from dtensor.dialect.errors import MeshError
from dtensor.dialect.mesh import XLA_SPMD, Mesh
from dtensor.dialect.mesh_axes import axis_pairs
from dtensor.dialect.mesh_devices import MeshDevices, install_naming
from dtensor.runtime.clients import coordination
from dtensor.runtime.clients.config import checked_device_type, default_device_type
from dtensor.runtime.naming import as_device, devices_of_type, find_device, names_of, type_of_device

# The devices of each mesh that was made over given ones; a Mesh itself knows only their ids, which
# the devices of two platforms share.
_devices_of: dict[Mesh, tuple[jax.Device, ...]] = {}
coordination.resets.append(_devices_of.clear)


def create_mesh(
    mesh_dims: Mapping[str, int] | Iterable[tuple[str, int] | list[str | int]] | None = None,
    mesh_name: str = "",
    devices: Sequence[jax.Device | int | str | DeviceSpec] | None = None,
    device_type: str | None = None,
    use_xla_spmd: bool = False,
) -> Mesh:
    """A mesh over the devices that jax has.

    Args:
        mesh_dims: `(name, size)` pairs, tuples or lists, or a mapping, major axis first; sizes in
            devices, one of them -1 for as many as there are. None is one axis `x` over all devices.
        mesh_name: name of the mesh, an identifier; its symbol in MLIR.
        devices: the devices in row-major mesh order, or in a NumPy array of the mesh's shape: jax
            devices, their ids, or names such as `CPU:3`. None takes the first ones jax lists.
        device_type: "CPU", "GPU" or "TPU"; None is the type of `devices`, else the one that
            `initialize_accelerator_system` chose, else the best there is.
        use_xla_spmd: False; programs are never left to XLA's own partitioner.

    Raises:
        MeshError: the number or the type of the devices does not fit, or an axis is malformed.
        ValueError: the device type is not one.

    Example:
        >>> dtensor.create_mesh([("x", 2), ("y", -1)])
        Mesh(x=2, y=4)
    """
    if use_xla_spmd:
        raise MeshError(XLA_SPMD)
    kind = checked_device_type(device_type) if device_type else default_device_type()
    if isinstance(devices, str) or not isinstance(devices, Iterable | None):
        raise MeshError(f"devices is {devices!r}; give a list, with one for each place of the mesh")
    have = devices_of_type(kind)
    if devices is not None:
        have = [as_device(device, kind) for device in getattr(devices, "flat", devices)]
        kind = common_type(have, device_type)
    if not have:
        raise MeshError(
            f"jax has no {kind} device to make a mesh of; name another device_type, or leave it "
            "out for the devices there are"
        )
    pairs = (("x", len(have)),) if mesh_dims is None else _pairs(mesh_dims, len(have))
    size = Mesh(pairs).size
    if devices is None and len(have) < size:
        raise MeshError(_too_few(pairs, size, len(have), kind))
    grid = getattr(devices, "shape", (len(have),))
    if devices is not None and grid not in ((size,), Mesh(pairs).sizes):
        raise MeshError(
            f"{Mesh(pairs).short()} has {size} places but {' x '.join(map(str, grid))} devices "
            "were given; give one for each"
        )
    asked, chosen = "" if kind == default_device_type() else kind, have[:size]
    return mesh_over(pairs, chosen, mesh_name, asked)


def mesh_over(
    axes: Sequence[tuple[str, int]],
    devices: Sequence[jax.Device],
    name: str = "",
    device_type: str = "",
) -> Mesh:
    """The mesh of these devices, in row-major order.

    It has no ids if they are the first that jax lists, which a mesh without ids is over: with
    several clients they may not be 0, 1, 2, ...

    Raises:
        MeshError: an axis is malformed, or an equal mesh is already made of other devices.
    """
    first = devices_of_type(type_of_device(devices[0]))[: len(devices)] if devices else []
    ids = None if list(devices) == first else [device.id for device in devices]
    return bind_devices(Mesh(axes, ids, name=name, device_type=device_type), devices)


def _pairs(mesh_dims: Any, available: int) -> tuple[tuple[str, int], ...]:
    """The axes, one of size -1 with the rest of the devices."""
    pairs = axis_pairs(mesh_dims)
    opened = [pair for pair in pairs if isinstance(pair, Sequence) and tuple(pair)[1:] == (-1,)]
    if not opened:
        return pairs
    rest = Mesh([pair for pair in pairs if pair not in opened]).size
    if len(opened) > 1 or available % rest or available < rest:
        raise MeshError(
            f"mesh axes {[pair[0] for pair in opened]} have size -1; only one can have the rest of "
            f"{available} devices, which the other axes divide: {list(pairs)}; give the sizes"
        )
    return tuple((pair[0], available // rest) if pair is opened[0] else pair for pair in pairs)


def common_type(devices: Sequence[jax.Device], asked: str | None) -> str:
    """The type of devices that are all of one type, and of the one asked for.

    Raises:
        MeshError: they are not, or there are none.
    """
    if not devices:
        raise MeshError("devices is empty; give one for each place of the mesh, or leave it out")
    kinds = sorted({type_of_device(device) for device in devices})
    if len(kinds) > 1:
        raise MeshError(f"devices are of several types, {', '.join(kinds)}; use one")
    if asked is not None and kinds[0] != asked.upper():
        raise MeshError(f"devices are of type {kinds[0]} but device_type is {asked}")
    return kinds[0]


def bind_devices(mesh: Mesh, devices: Sequence[jax.Device]) -> Mesh:
    """Remember that `mesh` is made of `devices`, in row-major order.

    Raises:
        MeshError: an equal mesh is already made of other devices.
    """
    bound = _devices_of.setdefault(mesh, tuple(devices))
    if bound != tuple(devices) and [*map(_kind, bound)] != [*map(_kind, devices)]:
        raise MeshError(
            f"{mesh.short()} is in use over {bound[0].platform} devices and was asked for over "
            f"{devices[0].platform} devices; give one of the two another name"
        )
    return mesh


def bound_kind(mesh: Mesh) -> str:
    """What jax calls the devices of a mesh that is in use: "NVIDIA H100 80GB HBM3"; else ""."""
    devices = _devices_of.get(mesh, ())
    return str(devices[0].device_kind) if devices else ""


def _kind(device: jax.Device) -> tuple[object, ...]:
    # A topology that is described twice has other device objects each time.
    here = device in devices_of_type(type_of_device(device))
    return (device.id, device.device_kind, getattr(device, "coords", None), here)


def mesh_devices(mesh: Mesh) -> tuple[jax.Device, ...]:
    """The devices of `mesh`, in row-major order.

    Raises:
        MeshError: jax does not have one of them, or the mesh is abstract.
    """
    if mesh.is_abstract:
        raise MeshError(no_devices(mesh))
    if mesh not in _devices_of:
        _devices_of[mesh] = _written_devices(mesh) if mesh.written else _devices_by_id(mesh)
    return _devices_of[mesh]


def no_devices(mesh: Mesh) -> str:
    """What to say where an abstract mesh cannot serve."""
    return (
        f"{mesh.short()} is abstract and has no devices; to run or compile, make the mesh with "
        "dtensor.create_mesh, or lower for a target"
    )


def _devices_by_id(mesh: Mesh) -> tuple[jax.Device, ...]:
    kind = mesh.type_asked or default_device_type()
    if mesh.device_ids is not None:
        return tuple(as_device(i, kind) for i in mesh.ids())
    have = devices_of_type(kind)
    if len(have) < mesh.size:
        raise MeshError(_too_few(mesh.axes, mesh.size, len(have), kind))
    return tuple(have[: mesh.size])


def _written_devices(mesh: Mesh) -> tuple[jax.Device, ...]:
    assert mesh.written is not None
    if not mesh.size:
        raise MeshError("the empty mesh has no devices, so nothing can be on it")
    names = mesh.written.all_names(mesh.size)
    if not names:
        raise MeshError(
            f"{mesh.short()} was written with only {len(mesh.written.local_names)} of its device "
            "names, those of one client; make it with create_mesh or create_distributed_mesh"
        )
    return tuple(as_device(name, "") for name in names)


class _Naming:
    """The names of the devices that jax drives."""

    def devices(self, mesh: Mesh, bind: bool) -> MeshDevices | None:
        """The devices of `mesh`; None if it is not in use yet and `bind` is false."""
        if mesh not in _devices_of and not bind:
            return None
        devices = mesh_devices(mesh)
        names = names_of(devices)
        here = jax.process_index()
        local = tuple(i for i, device in enumerate(devices) if device.process_index == here)
        return MeshDevices(names, local, tuple(names[i] for i in local))

    def ids(self, names: Sequence[str]) -> tuple[int, ...] | None:
        """The ids of the devices called `names`; None if one of them does not exist here."""
        found = [find_device(DeviceSpec.from_string(name)) for name in names]
        known = tuple(device.id for device in found if device is not None)
        return known if len(known) == len(found) else None


install_naming(_Naming())


def _too_few(axes: Sequence[tuple[str, int]], need: int, have: int, kind: str) -> str:
    shape = " x ".join(f"{name}={size}" for name, size in axes)
    text = f"mesh {shape} needs {need} devices, but jax has {have} {kind} device{'s'[: have != 1]}"
    if kind == "CPU":
        clients = jax.process_count()
        each = -(-need // clients)
        call = f'dtensor.initialize_accelerator_system("CPU", num_logical_cpu_devices={each})'
        where = " on each client" if clients > 1 else ""
        text += f"; call {call}{where} before jax first uses a device. Plans need no devices: "
        text += "Mesh.abstract, or target= of lower"
    return text
