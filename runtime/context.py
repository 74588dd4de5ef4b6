"""Under `jax.set_mesh`: programs have their own mesh, and arrays the types of the one that is set.

jax compiles a function anew for each mesh that is set, and refuses one on other devices. Where the
axes are Explicit it types each array with its sharding, and refuses arrays of the same devices
whose axes have other types beside them. A DTensor's own array always has axes of type Auto.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import jax
from jax.sharding import AbstractMesh, AxisType, NamedSharding, Sharding, get_abstract_mesh

from dtensor.runtime.array_type import as_weak, is_weak
from dtensor.runtime.clients.coordination import resets
from dtensor.runtime.donation import note_alias


def without_mesh() -> AbstractContextManager[Any]:
    """A context in which no mesh is set; where jax is tracing, which forbids that, no change."""
    if not get_abstract_mesh().axis_names:
        return nullcontext()
    try:
        return jax.set_mesh(None)
    except ValueError:
        return nullcontext()


def anywhere(run: Callable[..., Any]) -> Callable[..., Any]:
    """`run`, which does the same under any mesh."""

    def run_anywhere(*arrays: Any) -> Any:
        if get_abstract_mesh().axis_names:
            with without_mesh():
                return run(*arrays)
        return run(*arrays)

    return run_anywhere


def has_explicit_axes() -> bool:
    """Whether jax types values with shardings around this call."""
    return AxisType.Explicit in get_abstract_mesh().axis_types


@cache
def sharding_on(given: Sharding, mesh: AbstractMesh | None) -> Sharding:
    """A sharding in the axis types of a mesh; one over other axes, or without a mesh, as it is."""
    if mesh is None or not isinstance(given, NamedSharding) or given.mesh.shape != mesh.shape:
        return given
    devices, types = given.mesh.devices, mesh.axis_types
    return NamedSharding(jax.sharding.Mesh(devices, mesh.axis_names, axis_types=types), given.spec)


resets.append(sharding_on.cache_clear)


def typed_on(mesh: AbstractMesh, array: jax.Array) -> jax.Array:
    """An array in the axis types of a mesh, its shards where they are.

    Arrays over other axes, and traced ones, are left as they are.
    """
    if isinstance(array, jax.core.Tracer):
        return array
    sharding = sharding_on(array.sharding, mesh)
    if sharding == array.sharding:
        return array
    note_alias(array)
    shards = [shard.data for shard in array.addressable_shards]
    typed = jax.make_array_from_single_device_arrays(array.shape, sharding, shards)
    return as_weak(typed, is_weak(array))
