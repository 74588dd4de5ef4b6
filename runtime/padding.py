"""Arrays whose layout does not divide them: padded on the devices, of their true size to users.

Every shard is as long as the first one. What stands behind the last element may be anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from dtensor.dialect.dim import WHOLE
from dtensor.dialect.layout import Layout
from dtensor.runtime.clients.coordination import resets
from dtensor.runtime.context import anywhere
from dtensor.runtime.donation import Run, guarded
from dtensor.runtime.in_flight import throttled
from dtensor.runtime.placement import named_sharding

Shape = tuple[int, ...]
Ranges = tuple[tuple[int, int], ...]

# XLA's CPU collectives write integers of 2 bits beyond the end of their buffers.
_IN_BYTES = {"int2": jnp.int8, "uint2": jnp.uint8}


@dataclass(frozen=True, eq=False)
class Shard:
    """The part of an array that one device holds; jax's `Shard`, of true elements only.

    Attributes:
        device: jax's device.
        index: where the part stands in the array, a slice for each dimension.
        replica_id: 0 on the first device that holds this part, and so on.
        data: the part, on its device.
    """

    device: jax.Device
    index: tuple[slice, ...]
    replica_id: int
    data: jax.Array


def even_layout(layout: Layout, shape: Shape) -> Layout:
    """The layout with the dimensions whole that it does not divide."""
    pairs = zip(layout.dims, shape, strict=True)
    dims = [WHOLE if size % dim.split else dim for dim, size in pairs]
    return Layout.of(dims, layout.mesh)


def padded(array: Any, layout: Layout) -> Any:
    """An array with zeros behind the end of the dimensions that its layout does not divide.

    It is a NumPy array, or a jax.Array anywhere; not of random keys.
    """
    return lengthened(array, layout.padded_shape(array.shape))


def lengthened(array: Any, shape: Shape) -> Any:
    """An array with zeros behind its end, up to a shape."""
    if array.shape == shape:
        return array
    behind = [(0, n - size) for n, size in zip(shape, array.shape, strict=True)]
    return (np if isinstance(array, np.ndarray) else jnp).pad(array, behind)


def empty_array(shape: Sequence[int], dtype: Any, layout: Layout) -> jax.Array:
    """A new array without elements, for each call: its owner may donate it."""
    with jax.transfer_guard_host_to_device("allow"):  # there is nothing to transfer
        return from_host(np.empty(tuple(shape), dtype), layout)


def from_host(values: np.ndarray[Any, Any], layout: Layout) -> jax.Array:
    """An array of these values, padded where its layout does not divide it; no random keys.

    Each device of this client gets a copy of its shard, and nothing is sent to other clients.
    """
    whole = padded(values, layout)
    shards: dict[Ranges, np.ndarray[Any, Any]] = {}  # copies: jax may take their memory as its own

    def shard(index: tuple[slice, ...] | None) -> np.ndarray[Any, Any]:
        ranges = ranges_of(index or (), whole.shape)
        if ranges not in shards:
            shards[ranges] = np.array(whole[index or ...])
        return shards[ranges]

    sharding = named_sharding(layout)
    return jax.make_array_from_callback(whole.shape, sharding, shard, dtype=values.dtype)


def cut(array: jax.Array, shape: Shape, layout: Layout) -> jax.Array:
    """A padded array of this layout in its true shape, as `even_layout` lays it out."""
    if array.shape == shape:
        return array
    if 0 in shape:
        return empty_array(shape, array.dtype, even_layout(layout, shape))
    found: jax.Array
    run, how = anywhere(_cutter(shape, even_layout(layout, shape))), cast("Any", jax.config)
    if not (how.jax_debug_nans or how.jax_debug_infs):
        (found,) = run(array)
        return found
    # What is moved may be NaN: jax would find it, and move it again on this client alone.
    with jax.debug_nans(False), jax.debug_infs(False):
        (found,) = run(array)
    return found


@lru_cache(maxsize=256)
def _cutter(shape: Shape, layout: Layout) -> Run:
    sharding = named_sharding(layout)

    def cut(array: jax.Array) -> tuple[jax.Array]:
        # Otherwise XLA cuts first, and sums what the devices have: 0 + -0 is not -0.
        sent = array
        if wider := _IN_BYTES.get(array.dtype.name):
            sent = jax.lax.optimization_barrier(array.astype(wider))
        sent = jax.lax.with_sharding_constraint(sent, sharding)
        return (jax.lax.slice(sent, [0] * len(shape), shape).astype(array.dtype),)

    jitted = jax.jit(cut, out_shardings=(sharding,))
    return throttled(layout.mesh, guarded(jitted, ["x"], []))


resets.append(_cutter.cache_clear)


def ranges_of(index: Sequence[slice], shape: Sequence[int]) -> Ranges:
    """The first and last index of a shard along each dimension, the last excluded.

    Dimensions that jax's index leaves out are whole; more of them than the array has, as for the
    data of random keys, are left out.
    """
    whole = (*index, *[slice(None)] * (len(shape) - len(index)))
    return tuple([part.indices(size)[:2] for part, size in zip(whole, shape, strict=False)])


def true_ranges(index: Sequence[slice], padded_shape: Shape, shape: Shape) -> Ranges:
    """Where a shard of the padded array has elements of the array, whose true shape `shape` is."""
    found = zip(ranges_of(index, padded_shape), shape, strict=True)
    return tuple([(min(start, size), min(stop, size)) for (start, stop), size in found])


def true_part(data: jax.Array, ranges: Ranges) -> jax.Array:
    """The elements of a shard that the array has; on the shard's device."""
    sizes = [stop - start for start, stop in ranges]
    if tuple(sizes) == data.shape[: len(sizes)]:
        return data
    return data[tuple(map(slice, sizes))]
