"""A mesh from the arguments of TensorFlow DTensor's constructor, checked one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dtensor.dialect.device_spec import DEVICE_TYPES, DeviceSpec
from dtensor.dialect.errors import MeshError
from dtensor.dialect.mesh_devices import MeshDevices, naming


@dataclass(frozen=True)
class MeshParts:
    """What a mesh is made of.

    Attributes:
        axes: `(name, size)` pairs.
        ids: device ids, row-major; None where the devices are not here.
        written: the names of the devices; None where they are the ones the runtime would say.
        device_type: "" for the type that meshes have by default.
    """

    axes: tuple[tuple[str, int], ...]
    ids: tuple[int, ...] | None
    written: MeshDevices | None
    device_type: str = ""


def checked_parts(
    dim_names: Any,
    global_device_ids: Any,
    local_device_ids: Any,
    local_devices: Any,
    global_devices: Any,
) -> MeshParts:
    """The parts of the mesh that these arguments describe.

    Args:
        dim_names: names of the axes, major first.
        global_device_ids: array of the mesh's shape: consecutive ids, row-major.
        local_device_ids: ids of the devices that this client drives.
        local_devices: their names, in the same order.
        global_devices: names of all devices in the order of their ids; None, where the local ones
            are all, or the others are not known.

    Raises:
        MeshError: an argument is of another kind, or they do not agree.
    """
    ids = _global_ids(global_device_ids, dim_names)
    local_ids = _list(local_device_ids, "local_device_ids", "integers")
    local = _names(local_devices, "local_devices")
    every = () if global_devices is None else _names(global_devices, "global_devices")
    if len(local_ids) != len(local):
        raise MeshError(
            f"local_device_ids has {len(local_ids)} entries and local_devices {len(local)}; "
            "give one name for each id"
        )
    if len(local) > ids.size:
        raise MeshError(f"mesh of {ids.size} devices was given {len(local)} local ones")
    first = int(ids.flat[0])
    positions = tuple(int(i) - first for i in local_ids)
    foreign = [i for i, p in zip(local_ids, positions, strict=True) if not 0 <= p < ids.size]
    if foreign:
        raise MeshError(f"local device id {foreign[0]} is not among the mesh's ids, from {first}")
    if len(set(positions)) != len(positions):
        raise MeshError(f"local_device_ids names a device twice: {list(local_ids)}")
    if every and len(every) != ids.size:
        raise MeshError(f"global_devices has {len(every)} names for {ids.size} devices")
    _check_names(local, every)
    for position, name in zip(positions, local, strict=True) if every else ():
        if not _may_be_one(name, every[position]):
            raise MeshError(
                f"device {first + position} is {name} in local_devices and {every[position]} in "
                "global_devices; name the same one"
            )
    axes = tuple(zip(dim_names, (int(n) for n in ids.shape), strict=True))
    return resolved(axes, MeshDevices(every, positions, local, first, with_global=bool(every)))


def resolved(axes: tuple[tuple[str, int], ...], written: MeshDevices) -> MeshParts:
    """The mesh over the devices of these names: over the runtime's own, where it has them."""
    size = int(np.prod([n for _, n in axes], dtype=np.int64))
    names = written.all_names(size)
    if not written.with_global and len(written.local_positions) == size:
        written = replace(written, names=())  # the local ones say it all, as in the written form
    source = naming()
    ids = source.ids(names) if source is not None and len(names) == size else None
    if ids is None or source is None:
        return MeshParts(axes, None, written)
    from dtensor.dialect.mesh import Mesh

    # Equal to the mesh that `create_mesh` makes, if it is written the same way.
    kind = DeviceSpec.from_string(names[0]).device_type if names else ""
    for device_type in ("", kind):
        own = source.devices(Mesh.of(axes, ids, device_type=device_type), bind=True)
        if own is not None and _same(own, written):
            return MeshParts(axes, ids, None, device_type)
    return MeshParts(axes, ids, written)


def _same(own: MeshDevices, written: MeshDevices) -> bool:
    return (
        not written.with_global
        and written.first_id == 0
        and own.local_positions == written.local_positions
        and own.local_names == written.local_names
    )


def _global_ids(value: Any, dim_names: Any) -> np.ndarray[Any, Any]:
    if not isinstance(value, np.ndarray):
        raise MeshError(
            f"global_device_ids is of type {type(value).__name__}; give a numpy array of the "
            "mesh's shape, such as numpy.arange(6).reshape(3, 2)"
        )
    if isinstance(dim_names, str) or not isinstance(dim_names, Iterable):
        raise MeshError(f"dim_names is {dim_names!r}; give a list of axis names")
    if value.size == 0:
        raise MeshError("global_device_ids is empty; a mesh has at least one device")
    if value.ndim != len(list(dim_names)):
        raise MeshError(
            f"global_device_ids has {value.ndim} dimensions for the {len(list(dim_names))} axes "
            f"{list(dim_names)}; give one name for each"
        )
    if value.dtype.kind not in "iu" or (np.diff(value.ravel()) != 1).any():
        raise MeshError(
            f"global_device_ids must go up by one, row-major, but are {value.ravel().tolist()}"
        )
    return value


def _list(value: Any, what: str, of: str) -> tuple[Any, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise MeshError(f"{what} is of type {type(value).__name__}; give a list of {of}")
    return tuple(value)


def _names(value: Any, what: str) -> tuple[str, ...]:
    names = _list(value, what, "device names")
    specs = [
        entry if isinstance(entry, DeviceSpec) else DeviceSpec.from_string(str(entry))
        for entry in names
    ]
    return tuple(
        spec.to_string() if isinstance(entry, DeviceSpec) else str(entry)
        for entry, spec in zip(names, specs, strict=True)
    )


def _may_be_one(name: str, other: str) -> bool:
    """Whether two names, of which either may leave parts out, can be of one device."""
    a, b = DeviceSpec.from_string(name), DeviceSpec.from_string(other)
    pairs = ((a.job, b.job), (a.replica, b.replica), (a.task, b.task))
    return a.device_index == b.device_index and all(p in (None, q) or q is None for p, q in pairs)


def _check_names(local: Sequence[str], every: Sequence[str]) -> None:
    if not (local or every):
        raise MeshError("mesh has no devices; name at least one")
    kinds = sorted({DeviceSpec.from_string(name).device_type for name in (*local, *every)})
    if len(kinds) > 1:
        raise MeshError(f"mesh has devices of several types, {', '.join(kinds)}; use one")
    if kinds[0] not in DEVICE_TYPES:
        raise MeshError(f"device type {kinds[0]} is not one of {', '.join(DEVICE_TYPES)}")
    for names in (local, every):
        if len(set(names)) != len(names):
            raise MeshError(f"mesh names a device twice: {list(names)}")
