"""Where a layout's shards are: dtensor's Mesh and Layout as jax's Mesh and NamedSharding, and back.

A jax mesh cannot name a part of an axis, so a layout that splits a dimension over `"x":(1)2` of an
axis of 8 devices is written on a refined jax mesh, whose axes `x_0` and `x_1` have 2 and 4 devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import jax
import numpy as np
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.errors import LayoutError, MeshError
from dtensor.dialect.layout import OPEN, Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime import client
from dtensor.runtime.clients.coordination import resets


@dataclass(frozen=True)
class RefinedMesh:
    """A jax mesh whose axes are the parts that some layouts split their dimensions over.

    Attributes:
        jax_mesh: the devices, arranged along the parts, in the order of the dtensor mesh.
        parts: the jax axes of each dtensor axis, major first.
    """

    jax_mesh: jax.sharding.Mesh
    parts: Mapping[str, tuple[tuple[str, AxisRef], ...]]

    def names(self, axis: AxisRef) -> tuple[str, ...]:
        """The jax axes that make up `axis`, major first."""
        end = axis.pre * axis.size
        return tuple(n for n, p in self.parts[axis.name] if axis.pre <= p.pre < end)

    def spec(self, layout: Layout) -> PartitionSpec:
        """The layout in jax's words; it must be complete and contiguous."""
        entries: list[Any] = []
        for dim in layout.dims:
            names = tuple(name for axis in dim.axes for name in self.names(axis))
            entries.append(names[0] if len(names) == 1 else names or None)
        return PartitionSpec(*entries)


@cache
def jax_mesh(mesh: Mesh) -> jax.sharding.Mesh:
    """The mesh as jax's, with automatic axes.

    Raises:
        MeshError: jax does not have one of the devices.
    """
    devices = np.empty(mesh.size, dtype=object)
    devices[:] = client.mesh_devices(mesh)
    return jax.sharding.Mesh(devices.reshape(mesh.sizes), mesh.axis_names)


def platform_of(mesh: Mesh | None) -> str | None:
    """What jax calls the devices of a mesh: "cpu"; None where it has none, or none is known."""
    if mesh is None or mesh.is_abstract:
        return None
    return str(jax_mesh(mesh).devices.flat[0].platform)


def refined_mesh(mesh: Mesh, layouts: Iterable[Layout]) -> RefinedMesh:
    """The coarsest jax mesh on which every layout can be written.

    Raises:
        LayoutError: two layouts use parts of an axis that have no common refinement.
    """
    cuts: dict[str, set[int]] = {name: set() for name in mesh.axis_names}
    for layout in layouts:
        for axis in layout.axes:
            cuts[axis.name] |= {axis.pre, axis.pre * axis.size}
    return _refined(mesh, tuple((name, tuple(sorted(cuts[name]))) for name in mesh.axis_names))


@cache
def _refined(mesh: Mesh, cuts: tuple[tuple[str, tuple[int, ...]], ...]) -> RefinedMesh:
    parts: dict[str, tuple[tuple[str, AxisRef], ...]] = {}
    for name, at in cuts:
        size = mesh.axis_size(name)
        chain = sorted({1, size, *at})
        for low, high in pairwise(chain):
            if high % low:
                raise LayoutError(
                    f'axis "{name}" of {size} devices is cut at {low} and at {high}, which have no '
                    "common refinement; cut it where one divides the other"
                )
        refs = [AxisRef(name, low, high // low) for low, high in pairwise(chain)]
        parts[name] = tuple((_part_name(name, i, mesh), ref) for i, ref in enumerate(refs))
        if len(refs) <= 1:
            parts[name] = ((name, mesh.axis(name)),)
    base = jax_mesh(mesh)
    flat = [(name, ref) for axis in mesh.axis_names for name, ref in parts[axis]]
    if len(flat) == len(mesh.axes):
        return RefinedMesh(base, parts)
    shape = [ref.size for _, ref in flat]
    refined = jax.sharding.Mesh(base.devices.reshape(shape), [name for name, _ in flat])
    _AXES_OF_REFINED[refined] = (mesh, dict(flat))
    return RefinedMesh(refined, parts)


_AXES_OF_REFINED: dict[jax.sharding.Mesh, tuple[Mesh, dict[str, AxisRef]]] = {}


def _part_name(axis: str, index: int, mesh: Mesh) -> str:
    name = f"{axis}_{index}"
    while name in mesh:
        name += "_"
    return name


def named_sharding(layout: Layout) -> NamedSharding:
    """The sharding that places an array as `layout` says, for jax's own functions.

    Such as `jax.device_put(array, named_sharding(layout))`. jax refuses it for an array with a
    dimension that it does not divide.

    Raises:
        LayoutError: an array cannot have this layout (partial, or cut into blocks).
        MeshError: jax does not have one of the mesh's devices.
        TypeError: `layout` is no Layout.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> x = jax.device_put(np.ones((4, 8)), dtensor.named_sharding(rows))
        >>> x.addressable_data(0).shape
        (2, 8)
    """
    if not isinstance(layout, Layout):
        found = type(layout).__name__
        raise TypeError(f"named_sharding takes a Layout, not a value of type {found}")
    return _named_sharding(layout)


@cache
def _named_sharding(layout: Layout) -> NamedSharding:
    problem = layout.border_problem()
    if problem is not None:
        raise LayoutError(f"no array can have the layout {layout.short()}: {problem}")
    refined = refined_mesh(layout.mesh, [layout])
    return NamedSharding(refined.jax_mesh, refined.spec(layout))


def layout_of(sharding: object, rank: int, mesh: Mesh | None = None) -> Layout | None:
    """The layout of an array of `rank` dimensions that jax placed by `sharding`.

    None where no mesh of dtensor's can say it: another kind of sharding, or other devices than
    those of `mesh`, where that is known.
    """
    if isinstance(sharding, SingleDeviceSharding) and mesh is not None and mesh.size == 1:
        is_there = sharding.device_set == set(jax_mesh(mesh).devices.flat)
        return Layout.replicated(mesh, rank) if is_there else None
    if not isinstance(sharding, NamedSharding):
        return None
    spec = sharding.spec
    if getattr(spec, "unreduced", None) or len(spec) > rank:
        return None
    if sharding.mesh in _AXES_OF_REFINED:
        found, names = _AXES_OF_REFINED[sharding.mesh]
    else:
        known = mesh_of(sharding.mesh, mesh)
        if known is None:
            return None
        found, names = known, {name: known.axis(name) for name in known.axis_names}
    if mesh is not None and found != mesh:
        return None
    specs: list[Any] = [None] * rank
    for i, entry in enumerate(spec):
        if entry is PartitionSpec.UNCONSTRAINED:
            specs[i] = OPEN
        elif entry is not None:
            axes = (entry,) if isinstance(entry, str) else tuple(entry)
            specs[i] = tuple(names[axis] for axis in axes)
    return Layout(specs, found)


def mesh_of(
    jax_mesh_: jax.sharding.Mesh | AbstractMesh, preferred: Mesh | None = None
) -> Mesh | None:
    """The dtensor mesh of a jax mesh: `preferred`, or one in use, or else a new one.

    Returns:
        None for a mesh without devices that `preferred` does not resemble, or with another axis
        name than dtensor's meshes may have.
    """
    axes = tuple(zip(jax_mesh_.axis_names, jax_mesh_.axis_sizes, strict=True))
    is_alike = preferred is not None and preferred.axes == axes
    if isinstance(jax_mesh_, AbstractMesh):
        return preferred if is_alike else None
    devices = list(jax_mesh_.devices.flat)
    if preferred is not None and is_alike and devices == list(jax_mesh(preferred).devices.flat):
        return preferred
    try:
        return client.mesh_over(axes, devices)
    except MeshError:
        return None


@cache
def local_devices(mesh: Mesh) -> tuple[jax.Device, ...]:
    """The devices of `mesh` that this process drives, in the order of `mesh.local_devices()`."""
    here = jax.process_index()
    devices = client.mesh_devices(mesh)
    local = [i for i, device in enumerate(devices) if device.process_index == here]
    listed = () if mesh.written is None else mesh.written.local_positions
    if sorted(listed) == local:  # as whoever wrote the mesh counts them, in any order
        local = list(listed)
    return tuple(devices[i] for i in local)


_caches = (jax_mesh, _refined, _named_sharding, local_devices)
resets += [*[cached.cache_clear for cached in _caches], _AXES_OF_REFINED.clear]
