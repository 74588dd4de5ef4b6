"""TensorFlow DTensor's written form of a mesh.

`name|x=3,y=2|0,1,2,3,4,5|0,1,2|<local devices>`, then `|<global devices>` where those are listed.
`name|x=3,y=2|*CPU` names the devices itself, the name of a device alone is a mesh of that device
without axes, and `empty_mesh` has none.
"""

from __future__ import annotations

import math
import re

import numpy as np

from dtensor.dialect.device_spec import DEVICE_TYPES, DeviceSpec
from dtensor.dialect.errors import MeshError
from dtensor.dialect.mesh import XLA_SPMD, Mesh
from dtensor.dialect.mesh_devices import MeshDevices, naming
from dtensor.dialect.mesh_parts import MeshParts, checked_parts, resolved

EMPTY = "empty_mesh"
_FORM = "name|x=3,y=2|global ids|local ids|local devices"
_AXIS = re.compile(r"\s*([^=\s]+)\s*=\s*(-?\d{1,18})\s*")


def write_mesh(mesh: Mesh, devices: MeshDevices) -> str:
    """The written form of `mesh`, whose devices are called `devices`."""
    if not mesh.axes:
        return devices.local_names[0] if devices.local_names else EMPTY
    first = devices.first_id
    parts = [
        mesh.name,
        ",".join(f"{name}={size}" for name, size in mesh.axes),
        ",".join(str(first + i) for i in range(mesh.size)),
        ",".join(str(first + i) for i in devices.local_positions),
        ",".join(devices.local_names),
    ]
    if devices.with_global:
        parts.append(",".join(devices.names))
    return "|".join(parts)


def read_mesh(text: str) -> Mesh:
    """The mesh that `text` writes.

    Raises:
        MeshError: the text is malformed, or its parts do not agree.
    """
    if not isinstance(text, str):
        raise MeshError(f"a mesh is read from text, such as {_FORM}, not from {text!r}")
    text = text.strip()
    if text == EMPTY:
        return Mesh.of((), written=MeshDevices((), (), ()))
    parts = text.split("|")
    if len(parts) == 1:
        return _single(text)
    if parts[-1] == "use_xla_spmd":
        raise MeshError(f"{text!r}: {XLA_SPMD}")
    if len(parts) not in (3, 5, 6):
        raise MeshError(
            f"malformed mesh {text!r}: it has {len(parts)} parts between '|'; the form is {_FORM}, "
            "or name|x=3,y=2|*CPU"
        )
    axes = _axes(parts[1], text)
    made = _generated(axes, parts[2], text) if len(parts) == 3 else _listed(axes, parts[2:], text)
    mesh = Mesh.of(made.axes, made.ids, parts[0].strip(), made.device_type, made.written)
    mesh.devices()  # from now on it is written with their names
    return mesh


def host_mesh(mesh: Mesh) -> Mesh:
    """The grid of `mesh`, without a name, over the CPU devices of the same clients."""
    devices = mesh.devices()
    local = tuple(_on_cpu(name) for name in devices.local_names)
    names = tuple(_on_cpu(name) for name in devices.names)
    with_global = devices.with_global
    made = resolved(mesh.axes, MeshDevices(names, devices.local_positions, local, 0, with_global))
    return Mesh.of(made.axes, made.ids, "", made.device_type, made.written)


def single_device_mesh(device: str) -> Mesh:
    """The mesh of one device; its name is completed where the device is here."""
    name = DeviceSpec.from_string(device).to_string()
    source = naming()
    ids = None if source is None else source.ids([name])
    if source is not None and ids is not None:
        kind = DeviceSpec.from_string(name).device_type
        for device_type in ("", kind):
            found = source.devices(Mesh.of((), ids, device_type=device_type), bind=True)
            if found is not None and DeviceSpec.from_string(found.names[0]).device_type == kind:
                name = found.names[0]
    return _single(name)


def _on_cpu(name: str) -> str:
    spec = DeviceSpec.from_string(name)
    return DeviceSpec(spec.job, spec.replica, spec.task, "CPU", spec.device_index).to_string()


def _single(text: str) -> Mesh:
    try:
        DeviceSpec.from_string(text)
    except MeshError:
        raise MeshError(f"malformed mesh {text!r}; the form is {_FORM}") from None
    made = resolved((), MeshDevices((text,), (0,), (text,)))
    written = made.written or MeshDevices((text,), (0,), (text,))
    return Mesh.of((), made.ids, written=written)


def _axes(text: str, whole: str) -> tuple[tuple[str, int], ...]:
    axes = []
    for part in text.split(","):
        match = _AXIS.fullmatch(part)
        if match is None:
            raise MeshError(f"malformed mesh {whole!r}: axis {part!r} is not of the form x=3")
        axes.append((match[1], int(match[2])))
    return Mesh.of(axes).axes  # checked


def _generated(axes: tuple[tuple[str, int], ...], text: str, whole: str) -> MeshParts:
    device_type = text.strip()[1:].upper()
    if not text.strip().startswith("*") or device_type not in DEVICE_TYPES:
        allowed = ", ".join(f"*{kind}" for kind in DEVICE_TYPES)
        raise MeshError(f"malformed mesh {whole!r}: found {text!r} where one of {allowed} is due")
    size = math.prod(n for _, n in axes)
    names = tuple(f"/job:localhost/task:0/device:{device_type}:{i}" for i in range(size))
    return resolved(axes, MeshDevices(names, tuple(range(size)), names))


def _listed(axes: tuple[tuple[str, int], ...], parts: list[str], whole: str) -> MeshParts:
    ids, local_ids = _integers(parts[0], whole), _integers(parts[1], whole)
    names = [[n.strip() for n in p.split(",") if n.strip()] for p in parts[2:]]
    size = math.prod(n for _, n in axes)
    if len(ids) != size:
        raise MeshError(
            f"malformed mesh {whole!r}: its axes need {size} devices but it lists {len(ids)} ids"
        )
    try:
        return checked_parts(
            [name for name, _ in axes],
            np.array(ids).reshape([n for _, n in axes]),
            local_ids,
            names[0],
            names[1] if len(names) == 2 else None,
        )
    except MeshError as error:
        raise MeshError(f"malformed mesh {whole!r}: {error}") from None


def _integers(text: str, whole: str) -> list[int]:
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    odd = next((e for e in entries if re.fullmatch(r"\d{1,18}", e, re.ASCII) is None), None)
    if odd is not None:
        raise MeshError(f"malformed mesh {whole!r}: {odd!r} is not a device id")
    return [int(entry) for entry in entries]
