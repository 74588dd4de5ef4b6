"""Meshes over all cores of a TPU topology, whose axes are axes of the machine as far as can be."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from jax.experimental import mesh_utils

from dtensor.dialect.errors import MeshError
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.client import create_mesh
from dtensor.runtime.naming import devices_of_type
from dtensor.runtime.tpu.system import no_tpus
from dtensor.runtime.tpu.topology import device_list, device_location


def create_tpu_mesh(
    mesh_dim_names: Sequence[str],
    mesh_shape: Sequence[int],
    mesh_name: str = "",
    ring_dims: int | None = None,
    devices: Any = None,
) -> Mesh:
    """A mesh over all cores of a TPU topology, in the order of jax's `mesh_utils`.

    Each mesh axis takes whole axes of the machine where that can be, those that communicate most
    first; on small slices the devices are a ring.

    Args:
        mesh_dim_names: names of the mesh axes, major first.
        mesh_shape: their sizes in devices; together as many as there are cores.
        mesh_name: name of the mesh, an identifier, or nothing.
        ring_dims: how many mesh dimensions communicate most, from the first on if positive and up
            to the last if negative; None is all but the first, 0 leaves the devices as jax numbers
            them.
        devices: the TPU devices of one slice, or what `jax.experimental.topologies` describes;
            None takes all that jax has.

    Raises:
        MeshError: an argument is malformed, there are no TPUs, or the mesh does not have one place
            for each core.

    Example:
        `create_tpu_mesh(["data", "model"], [4, 8])`, with `model` on neighbours
    """
    if isinstance(mesh_dim_names, str) or len(mesh_dim_names) != len(mesh_shape):
        raise MeshError(
            f"mesh_dim_names {mesh_dim_names!r} and mesh_shape {list(mesh_shape)} must be as long "
            "as each other; give one name for each size"
        )
    mesh = Mesh(list(zip(mesh_dim_names, mesh_shape, strict=True)))
    rank = len(mesh.sizes)
    along = 1 - rank if ring_dims is None else ring_dims
    if isinstance(along, bool) or not isinstance(along, Integral) or abs(along) > rank:
        raise MeshError(f"invalid ring_dims value: {along!r}; give one from {-rank} to {rank}")
    cores = _cores(devices, mesh)
    if ring_dims != 0:  # to jax, the axes that communicate most are the last ones
        first = max(along, 0)
        sizes = (*mesh.sizes[first:], *mesh.sizes[:first])
        try:
            found = mesh_utils.create_device_mesh(sizes, cores, allow_split_physical_axes=True)
        except AssertionError as error:
            raise MeshError(
                "jax has no order for the cores of this TPU slice, which must fill a box, one to a "
                f"chip where chips have one memory: {error}"
            ) from None
        cores = list(np.moveaxis(found, range(-first, 0), range(first)).flat)
    return create_mesh(mesh.axes, mesh_name, devices=cores, device_type="TPU")


def _cores(devices: Any, mesh: Mesh) -> list[Any]:
    """The devices of a slice in jax's order, as many as the mesh has places."""
    given = devices_of_type("TPU") if devices is None else device_list(devices)
    if not given:
        raise MeshError(
            f"invalid TPU topology, run dtensor.tpu.initialize_tpu_system() first, or give "
            f"`devices`: {no_tpus('create_tpu_mesh')}"
        )
    places = {device_location(device) for device in given}
    if len(places) != len(given):
        raise MeshError(
            f"{len(given)} devices were given for {len(places)} places; give each device once"
        )
    if mesh.size != len(given):
        raise MeshError(
            f"invalid mesh size: mesh shape {list(mesh.sizes)} has {mesh.size} places and cannot "
            f"map one to one to {len(given)} TPU cores"
        )
    return sorted(given, key=lambda device: (device.process_index, device.id))
