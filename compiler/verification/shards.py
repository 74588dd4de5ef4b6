"""Cutting an array into the shards of a layout, and putting it together again, on the host.

Nothing here asks the compiler how to move data: a fault there must not hide here. A layout's word
of digits says directly which elements a device holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from dtensor.dialect.dim import Dim
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh

Array = np.ndarray[Any, Any]
Shards = Array  # of all devices: the first dimension counts them, in mesh order

COMBINE: dict[str, Any] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}


def shard_indices(layout: Layout, shape: Sequence[int], device: int) -> tuple[Array, ...]:
    """Per dimension, which elements of the whole the shard of a device has, in its order.

    Args:
        layout: the layout; parts of a reduction count as the elements that they are parts of.
        shape: global shape in elements.
        device: position of the device in the mesh.
    """
    pairs = zip(layout.dims, shape, strict=True)
    return tuple(_of_dimension(dim, size, layout.mesh, device) for dim, size in pairs)


def _of_dimension(dim: Dim, size: int, mesh: Mesh, device: int) -> Array:
    sizes = [digit if isinstance(digit, int) else digit.size for digit in dim.digits]
    rest = size // math.prod(sizes)
    numbers = np.arange(size).reshape([*sizes, rest])
    chosen = tuple(
        slice(None) if isinstance(digit, int) else mesh.coordinate(device, digit)
        for digit in dim.digits
    )
    return np.asarray(numbers[chosen]).reshape(-1)


def cut(value: Array, layout: Layout) -> Shards:
    """The shards of all devices; of parts that are summed, the first has all and others zero."""
    shards = []
    for device in range(layout.mesh.size):
        shard = value[np.ix_(*shard_indices(layout, value.shape, device))]
        for axis, kind in layout.partial:
            if kind in ("sum", "prod") and layout.mesh.coordinate(device, axis):
                shard = np.full_like(shard, 0 if kind == "sum" else 1)
        shards.append(shard)
    return np.stack(shards)


def combined(shards: Shards, layout: Layout, devices: Sequence[int]) -> Array:
    """What the parts of these devices make together, in the precision of the host.

    Args:
        shards: of all devices.
        layout: the layout, with the axes over which it is partial.
        devices: those that differ on these axes only, in mesh order.
    """
    values = [wide(shards[device]) for device in devices]
    if len(values) == 1:
        return values[0]
    at = [[layout.mesh.coordinate(d, axis) for axis in layout.partial_axes] for d in devices]
    # The axes are combined one after another, the last first, each by its own reduction.
    table = {tuple(place): value for place, value in zip(at, values, strict=True)}
    for _, kind in reversed(layout.partial):
        joined: dict[tuple[int, ...], Array] = {}
        for place, value in table.items():
            rest = place[:-1]
            joined[rest] = value if rest not in joined else COMBINE[kind](joined[rest], value)
        table = joined
    return table[()]


def join(shards: Shards, layout: Layout, shape: Sequence[int]) -> Array:
    """The whole array, in the type of its shards; where devices disagree, the first counts."""
    whole = np.zeros(shape, shards.dtype)
    for devices in reversed(layout.mesh.groups(layout.partial_axes)):
        value = combined(shards, layout, devices).astype(shards.dtype)
        whole[np.ix_(*shard_indices(layout, shape, devices[0]))] = value
    return whole


def wide(value: Array) -> Array:
    """The values in a type of numpy's own in which they can be subtracted and summed."""
    kind = value.dtype.kind
    if kind == "c":
        return value.astype(np.complex128)
    if kind in "biu":
        return value
    with np.errstate(invalid="ignore"):  # a signalling NaN in what nobody has written
        return value.astype(np.float64)


def poisoned(value: Array, shape: Sequence[int]) -> Array:
    """A value of a longer shape: behind its end stands NaN, or an integer of ones alone."""
    if tuple(shape) == value.shape:
        return value
    is_inexact = jnp.issubdtype(value.dtype, jnp.inexact)
    fill = np.array(np.nan if is_inexact else -1).astype(value.dtype)
    longer = np.full(tuple(shape), fill, value.dtype)
    longer[tuple(map(slice, value.shape))] = value
    return longer
