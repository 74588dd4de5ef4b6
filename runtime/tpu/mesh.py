"""Meshes over all cores of a TPU topology, in which rings of devices are rings of the machine."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import jax

from dtensor.dialect.errors import MeshError
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.client import create_mesh
from dtensor.runtime.naming import devices_of_type
from dtensor.runtime.tpu.rings import CORE, Location, ring_box, rings
from dtensor.runtime.tpu.system import no_tpus
from dtensor.runtime.tpu.topology import device_list, device_location


def create_tpu_mesh(
    mesh_dim_names: Sequence[str],
    mesh_shape: Sequence[int],
    mesh_name: str = "",
    ring_dims: int | None = None,
    devices: Any = None,
) -> Mesh:
    """A mesh over all cores of a TPU topology, ordered for all-reduces in rings.

    The devices along the ring dimensions, taken together in row-major order, are a ring: each is
    one hop from the next, and the last from the first if the grid of cores has such a cycle. A
    ring fills a box of cores, the cores of a chip first, then as long as can be along x, y and z.

    Args:
        mesh_dim_names: names of the mesh axes, major first.
        mesh_shape: their sizes in devices; together as many as there are cores.
        mesh_name: name of the mesh, an identifier, or nothing.
        ring_dims: number of mesh dimensions to build rings for, from the first on if positive and
            up to the last if negative; 0 builds none. None is all but the first, or the only one.
        devices: the TPU devices of one slice, or what `jax.experimental.topologies` describes;
            None takes all that jax has.

    Raises:
        MeshError: an argument is malformed, there are no TPUs, the mesh does not have one place
            for each core, or no rings are as asked for.

    Example:
        `create_tpu_mesh(["data", "model"], [4, 8])`, with rings along `model`
    """
    names, shape = _checked_dims(mesh_dim_names, mesh_shape)
    along = _checked_ring_dims(ring_dims, len(shape))
    by_location = _by_location(devices)
    origin, sizes = _box_of(by_location)
    if math.prod(shape) != len(by_location):
        raise MeshError(
            f"invalid mesh size: mesh shape {list(shape)} has {math.prod(shape)} places and cannot "
            f"map one to one to {len(by_location)} TPU cores"
        )
    ring_size = math.prod(shape[:along] if along > 0 else shape[len(shape) + along :])
    tiles = rings(ring_box(sizes, ring_size), sizes)
    # Row-major, leading ring dimensions have the members of a ring far apart.
    members: Iterable[Iterable[Location]] = zip(*tiles, strict=True) if along > 0 else tiles
    ordered = [by_location[_plus(origin, cell)] for group in members for cell in group]
    pairs = list(zip(names, shape, strict=True))
    return create_mesh(pairs, mesh_name, devices=ordered, device_type="TPU")


def _checked_dims(
    names: Sequence[str], shape: Sequence[int]
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    if isinstance(names, str) or len(names) != len(shape):
        raise MeshError(
            f"mesh_dim_names {names!r} and mesh_shape {list(shape)} must be as long as each other; "
            "give one name for each size"
        )
    mesh = Mesh([(name, _int(size)) for name, size in zip(names, shape, strict=True)])
    return mesh.axis_names, mesh.sizes


def _checked_ring_dims(ring_dims: int | None, rank: int) -> int:
    if ring_dims is None:
        # The first dimension is usually the batch's, but an only one is what there is to build.
        return 1 if rank == 1 else 1 - rank
    if isinstance(ring_dims, bool) or not isinstance(ring_dims, int) or abs(ring_dims) > rank:
        raise MeshError(f"invalid ring_dims value: {ring_dims!r}; give one from {-rank} to {rank}")
    return ring_dims


def _int(value: Any) -> Any:
    """A numpy integer as Python's; anything else as it is, for the check that follows."""
    is_bool = isinstance(value, bool)
    return int(value) if hasattr(value, "__index__") and not is_bool else value


def _by_location(devices: Any) -> dict[Location, jax.Device]:
    given = devices_of_type("TPU") if devices is None else device_list(devices)
    if not given:
        raise MeshError(
            f"invalid TPU topology, run dtensor.tpu.initialize_tpu_system() first, or give "
            f"`devices`: {no_tpus('create_tpu_mesh')}"
        )
    by_location = {device_location(device): device for device in device_list(given)}
    if len(by_location) != len(given):
        raise MeshError(
            f"{len(given)} devices were given for {len(by_location)} places; give each device once"
        )
    return by_location


def _box_of(by_location: dict[Location, jax.Device]) -> tuple[Location, Location]:
    """Where the box of all cores begins, and its sizes; it must be full."""
    lowest = [min(values) for values in zip(*by_location, strict=True)]
    highest = [max(values) for values in zip(*by_location, strict=True)]
    x, y, z, core = (high - low + 1 for low, high in zip(lowest, highest, strict=True))
    sizes = [x, y, z, core]
    if sizes[CORE] > 2 or math.prod(sizes) != len(by_location):
        raise MeshError(
            f"unsupported TPU slice size: {sizes}, with {len(by_location)} cores; the chips must "
            "fill a box, with 1 or 2 cores each"
        )
    return (lowest[0], lowest[1], lowest[2], lowest[3]), (x, y, z, core)


def _plus(a: Sequence[int], b: Sequence[int]) -> Location:
    x, y, z, core = (i + j for i, j in zip(a, b, strict=True))
    return x, y, z, core
