"""Arrays whose layout does not divide them: padded on the devices, of their true size to users.

Every shard is as long as the first one. What stands behind the last element may be anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dtensor.dialect.dim import WHOLE
from dtensor.dialect.layout import Layout
from dtensor.runtime.context import anywhere
from dtensor.runtime.keys import key_kind
from dtensor.runtime.placement import named_sharding

Shape = tuple[int, ...]
Ranges = tuple[tuple[int, int], ...]


def even_layout(layout: Layout, shape: Shape) -> Layout:
    """The layout with the dimensions whole that it does not divide."""
    pairs = zip(layout.dims, shape, strict=True)
    dims = [WHOLE if size % dim.split else dim for dim, size in pairs]
    return Layout.of(dims, layout.mesh)


def padded(array: Any, layout: Layout) -> Any:
    """An array with zeros behind the end of the dimensions that its layout does not divide.

    Args:
        array: a NumPy array, or a jax.Array anywhere; not of random keys.
        layout: how it will be laid out.
    """
    wanted = layout.padded_shape(array.shape)
    if wanted == array.shape:
        return array
    behind = [(0, n - size) for n, size in zip(wanted, array.shape, strict=True)]
    return (np if isinstance(array, np.ndarray) else jnp).pad(array, behind)


def empty_array(shape: Sequence[int], dtype: Any, layout: Layout) -> jax.Array:
    """A new array without elements, for each call: its owner may donate it."""
    nothing = np.empty(layout.local_shape(shape), dtype)
    whole = layout.padded_shape(shape)
    with jax.transfer_guard_host_to_device("allow"):  # there is nothing to transfer
        return jax.make_array_from_callback(whole, named_sharding(layout), lambda _: nothing)


def cut(array: jax.Array, shape: Shape, layout: Layout) -> jax.Array:
    """An array of its true size, as `even_layout` lays it out.

    Args:
        array: the padded array.
        shape: its true shape in elements.
        layout: its layout.
    """
    if array.shape == shape:
        return array
    if 0 in shape:
        return empty_array(shape, array.dtype, even_layout(layout, shape))
    found: jax.Array = anywhere(_cutter(shape, even_layout(layout, shape)))(array)
    return found


@lru_cache(maxsize=256)
def _cutter(shape: Shape, layout: Layout) -> Callable[[jax.Array], jax.Array]:
    sharding = named_sharding(layout)

    def cut(array: jax.Array) -> jax.Array:
        # Otherwise XLA cuts first, and sums what the devices have: 0 + -0 is not -0.
        array = jax.lax.with_sharding_constraint(array, sharding)
        return jax.lax.slice(array, [0] * len(shape), shape)

    run: Callable[[jax.Array], jax.Array] = jax.jit(cut, out_shardings=sharding)
    return run


def ranges_of(index: Sequence[slice], shape: Sequence[int]) -> Ranges:
    """The first and last index of a shard along each dimension, the last excluded.

    Args:
        index: as jax writes it. Dimensions that it leaves out are whole; more of them than the
            array has, as for the data of random keys, are left out.
        shape: shape of the array, in elements.
    """
    whole = (*index, *[slice(None)] * (len(shape) - len(index)))
    return tuple([part.indices(size)[:2] for part, size in zip(whole, shape, strict=False)])


def true_ranges(index: Sequence[slice], padded_shape: Shape, shape: Shape) -> Ranges:
    """Where a shard's elements stand in the array, without what is behind its end.

    Args:
        index: where the shard stands in the padded array.
        padded_shape: shape of that, in elements.
        shape: true shape of the array.
    """
    found = zip(ranges_of(index, padded_shape), shape, strict=True)
    return tuple([(min(start, size), min(stop, size)) for (start, stop), size in found])


def true_part(data: jax.Array, ranges: Ranges) -> jax.Array:
    """The elements of a shard that the array has; on the shard's device."""
    sizes = [stop - start for start, stop in ranges]
    if tuple(sizes) == data.shape[: len(sizes)]:
        return data
    return data[tuple(map(slice, sizes))]


def shape_of_parts(
    shapes: Sequence[Shape], starts: Sequence[Shape], layout: Layout
) -> Shape | None:
    """The true shape of an array whose shards have these shapes; None if there is none.

    Args:
        shapes: the shape of each shard, in elements.
        starts: which shard along each dimension it is.
        layout: how they make up the array.
    """
    shape = []
    for d, dim in enumerate(layout.dims):
        sizes: dict[int, set[int]] = {}
        for part, start in zip(shapes, starts, strict=True):
            sizes.setdefault(start[d], set()).add(part[d])
        lengths = [max(sizes[k]) for k in sorted(sizes)]
        size = sum(lengths)
        each = -(-size // dim.split)
        wanted = [min(each, max(0, size - k * each)) for k in range(dim.split)]
        if any(len(found) > 1 for found in sizes.values()) or lengths != wanted:
            return None
        shape.append(size)
    return tuple(shape)


def of_data(array: Any, work: Callable[[Any, Layout], Any], layout: Layout) -> Any:
    """What `work` makes of an array; of random keys, of their data."""
    kind = key_kind(array.dtype)
    if kind is None:
        return work(array, layout)
    return kind.keys(work(jax.random.key_data(array), kind.data_layout(layout)))
