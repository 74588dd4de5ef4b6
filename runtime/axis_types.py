"""Arrays in the types of a mesh with Explicit axes, as `jax.set_mesh` sets one.

jax types each array with its sharding there, and refuses arrays of the same devices whose axes have
other types beside them. A DTensor's own array always has axes of type Auto.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import jax
from jax.sharding import AbstractMesh, AxisType, NamedSharding, Sharding, get_abstract_mesh

from dtensor.runtime.donation import note_alias


def has_explicit_axes() -> bool:
    """Whether jax types values with shardings around this call."""
    return AxisType.Explicit in get_abstract_mesh().axis_types


def sharding_on(sharding: Sharding, mesh: AbstractMesh) -> Sharding:
    """A sharding in the axis types of a mesh; one over other axes as it is."""
    if not isinstance(sharding, NamedSharding) or sharding.mesh.shape != mesh.shape:
        return sharding
    devices = sharding.mesh.devices
    return NamedSharding(
        jax.sharding.Mesh(devices, mesh.axis_names, axis_types=mesh.axis_types), sharding.spec
    )


def typed_on(mesh: AbstractMesh) -> Callable[[jax.Array], jax.Array]:
    """What gives arrays the axis types of a mesh.

    The shards stay where they are. Arrays over other axes, and traced ones, are left as they are.
    """

    def typed(array: jax.Array) -> jax.Array:
        if isinstance(array, jax.core.Tracer):
            return array
        sharding = sharding_on(array.sharding, mesh)
        if sharding == array.sharding:
            return array
        note_alias(array)
        shards = [shard.data for shard in array.addressable_shards]
        return jax.make_array_from_single_device_arrays(array.shape, sharding, shards)

    return typed


def in_context(array: jax.Array) -> jax.Array:
    """An array in the axis types of the mesh that is set, where it has Explicit ones."""
    return typed_on(get_abstract_mesh())(array) if has_explicit_axes() else array


def explicit_mesh(shardings: Iterable[Sharding | None]) -> AbstractMesh | None:
    """The mesh with Explicit axes that is set; else that of the first sharding with one."""
    if has_explicit_axes():
        return get_abstract_mesh()
    for sharding in shardings:
        if isinstance(sharding, NamedSharding) and AxisType.Explicit in sharding.mesh.axis_types:
            found: AbstractMesh = sharding.mesh.abstract_mesh
            return found
    return None
