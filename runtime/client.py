"""The devices: which there are, and meshes over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import jax

from dtensor.dialect.errors import MeshError
from dtensor.dialect.mesh import Mesh

_PLATFORMS = {"CPU": ("cpu",), "GPU": ("cuda", "rocm", "gpu"), "TPU": ("tpu",)}

# The devices of each mesh that was made over given ones; a Mesh itself knows only their ids, which
# the devices of two platforms share.
_devices_of: dict[Mesh, tuple[jax.Device, ...]] = {}
_chosen_type: list[str] = []


def initialize_accelerator_system(
    device_type: str | None = None, num_logical_cpu_devices: int | None = None
) -> str:
    """Choose the devices that meshes are made of; call it before jax first uses a device.

    Args:
        device_type: "CPU", "GPU" or "TPU"; None is the best there is.
        num_logical_cpu_devices: into how many devices to divide the host's CPU; None leaves the
            number as it is.

    Returns:
        The device type in use.

    Raises:
        ValueError: the device type or the number is not one.
        RuntimeError: there is no such device, or jax is already running with fewer CPU devices.
    """
    if device_type is not None:
        device_type = _checked_type(device_type)
    if num_logical_cpu_devices is not None:
        _set_cpu_devices(num_logical_cpu_devices)
    chosen = device_type or preferred_device_type()
    if not _devices(chosen):
        raise RuntimeError(
            f"jax has no {chosen} device; it has {_available()}. Install jax for {chosen}, or let "
            f"JAX_PLATFORMS name it"
        )
    _chosen_type[:] = [chosen]
    return chosen


def preferred_device_type() -> str:
    """The device type that meshes use by default: the chosen one, else that of jax's devices."""
    if _chosen_type:
        return _chosen_type[0]
    platform = jax.devices()[0].platform
    for device_type, platforms in _PLATFORMS.items():
        if platform in platforms:
            return device_type
    return str(platform).upper()


def create_mesh(
    axes: Mapping[str, int] | Iterable[tuple[str, int]],
    devices: Sequence[jax.Device | int] | None = None,
    device_type: str | None = None,
    name: str = "mesh",
) -> Mesh:
    """A mesh over the devices that jax has.

    Args:
        axes: `(name, size)` pairs, major axis first; sizes in devices.
        devices: the devices in row-major mesh order, as jax devices or their ids; None takes the
            first ones jax lists.
        device_type: "CPU", "GPU" or "TPU"; None is the type `initialize_accelerator_system` chose,
            else the best there is.
        name: symbol of the mesh in MLIR. Meshes over different devices that are otherwise equal
            need different names.

    Raises:
        MeshError: there are fewer devices than the axes need, or an axis is malformed.
        ValueError: the device type is not one.

    Example:
        `create_mesh([("x", 2), ("y", 4)])`
    """
    pairs = tuple(axes.items()) if isinstance(axes, Mapping) else tuple(axes)
    size = Mesh(pairs).size
    have = _devices(_checked_type(device_type) if device_type else preferred_device_type())
    if devices is None:
        if len(have) < size:
            raise MeshError(_too_few(pairs, size, len(have), device_type))
        chosen = list(have[:size])
    else:
        by_id = {device.id: device for device in have}
        chosen = [_device(device, by_id) for device in devices]
    mesh = Mesh(pairs, [device.id for device in chosen], name)
    return bind_devices(mesh, chosen)


def bind_devices(mesh: Mesh, devices: Sequence[jax.Device]) -> Mesh:
    """Remember that `mesh` is made of `devices`, in row-major order.

    Raises:
        MeshError: an equal mesh is already made of other devices.
    """
    bound = _devices_of.setdefault(mesh, tuple(devices))
    if bound != tuple(devices):
        raise MeshError(
            f"{mesh!r} is in use over {bound[0].platform} devices and was asked for over "
            f"{devices[0].platform} devices; give one of the two another name"
        )
    return mesh


def mesh_devices(mesh: Mesh) -> tuple[jax.Device, ...]:
    """The devices of `mesh`, in row-major order.

    Raises:
        MeshError: jax does not have one of them.
    """
    if mesh not in _devices_of:
        by_id = {device.id: device for device in _devices(preferred_device_type())}
        missing = [i for i in mesh.ids() if i not in by_id]
        if missing and mesh.device_ids is None:
            raise MeshError(_too_few(mesh.axes, mesh.size, len(by_id), None))
        _devices_of[mesh] = tuple(_device(i, by_id) for i in mesh.ids())
    return _devices_of[mesh]


def _checked_type(device_type: str) -> str:
    if device_type.upper() not in _PLATFORMS:
        allowed = ", ".join(_PLATFORMS)
        raise ValueError(f"unknown device type {device_type!r}; it is one of {allowed}, or None")
    return device_type.upper()


def _devices(device_type: str) -> list[jax.Device]:
    for platform in _PLATFORMS.get(device_type, (device_type.lower(),)):
        try:
            return list(jax.devices(platform))
        except RuntimeError:  # jax has no such platform
            continue
    return []


def _available() -> str:
    devices = jax.devices()
    return f"{len(devices)} {devices[0].platform.upper()}"


def _device(device: jax.Device | int, by_id: Mapping[int, jax.Device]) -> jax.Device:
    if not isinstance(device, int):
        return device
    if device not in by_id:
        raise MeshError(f"jax has no device of id {device}; it has {sorted(by_id)}")
    return by_id[device]


def _too_few(axes: Sequence[tuple[str, int]], need: int, have: int, device_type: str | None) -> str:
    kind = device_type.upper() if device_type else preferred_device_type()
    shape = " x ".join(f"{name}={size}" for name, size in axes)
    text = f"mesh {shape} needs {need} devices, but jax has {have} {kind} device{'s'[: have != 1]}"
    if kind == "CPU":
        call = f'dtensor.initialize_accelerator_system("CPU", num_logical_cpu_devices={need})'
        text += f"; call {call} before jax first uses a device"
    return text


def _set_cpu_devices(count: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"num_logical_cpu_devices is {count!r}; it must be a positive integer")
    try:
        jax.config.update("jax_num_cpu_devices", count)
    except RuntimeError:  # jax already runs: nothing can change, but there may be enough
        pass
    have = len(_devices("CPU"))
    if have < count:
        raise RuntimeError(
            f"{count} logical CPU devices were asked for, but jax already runs with {have}; call "
            "initialize_accelerator_system before anything uses a jax device, or set "
            f"XLA_FLAGS=--xla_force_host_platform_device_count={count}"
        )
