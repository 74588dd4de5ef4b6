"""Orders of TPU cores in which the neighbours in a ring are neighbours in the machine.

A ring occupies a box of the topology, and all rings have boxes of one shape, which tile it. Inside
the box the cores are visited in a closed walk of single hops wherever there is one:

    (0,0) > (1,0) > (2,0) > (3,0)     The last axis of even size leads back. All other axes are
      ^                       v       walked in a snake, and all but the snake's first cell are
    (0,1)   (1,1) < (2,1) < (3,1)     visited on the way out: here the rows of 4, from x=1 on.
      ^       v                       The column x=0 is the way back.
    (0,2)   (1,2) > (2,2) > (3,2)
      ^                       v
    (0,3) < (1,3) < (2,3) < (3,3)

jax's `mesh_utils.create_device_mesh` (0.10.2) is equal where a mesh axis is an axis of the machine.
Where the last mesh axis takes several, its longest hop is 2 on a v5e of 2x4 as [8], 14 on 8x8 as
[64], 8 as [4, 16], 3 on a v4 of 2x2x2 as [8], 2 on 4x4x4 as [8, 8], 6 on a v3 of 4x4 as [32]; here
it is 1. Across the rings jax's is better: 2.3 hops on average, not 4.9, on 8x8 as [16, 4], 1.5, not
2.5, on 4x4x4 as [8, 8]. So this order is for the axes that carry most of what is sent, by
`create_tpu_mesh`, and `create_mesh` leaves the devices as jax numbers them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from dtensor.dialect.errors import MeshError

Location = tuple[int, int, int, int]  # x, y, z, core

AXES = ("x", "y", "z", "core")
CORE = 3
_ORIGIN: Location = (0, 0, 0, 0)
_ORDER = (CORE, 0, 1, 2)  # the axes, the one to fill first first


def rings(box: Location, sizes: Location) -> list[list[Location]]:
    """The rings that tile a topology, each a list of cores in ring order.

    Args:
        box: cores of one ring along x, y, z and core; divides `sizes`.
        sizes: cores of the topology along x, y, z and core.
    """
    inside = ring_order(box)
    origins = itertools.product(*(range(0, n, b) for n, b in zip(sizes, box, strict=True)))
    slowest_first = sorted(origins, key=lambda origin: [origin[axis] for axis in reversed(_ORDER)])
    return [
        [_location(i + j for i, j in zip(origin, cell, strict=True)) for cell in inside]
        for origin in slowest_first
    ]


def ring_box(sizes: Location, ring_size: int) -> Location:
    """The box of cores that one ring occupies: whole chips first, then long along x, y, z.

    Args:
        sizes: cores of the topology along x, y, z and core.
        ring_size: number of cores in a ring; divides the number of cores.

    Raises:
        MeshError: there is no such box.
    """
    for box in _boxes(sizes, ring_size, _ORDER):
        return box
    raise MeshError(
        f"no ring of {ring_size} devices tiles a TPU topology of {list(sizes)} cores; choose "
        "another number of devices along the ring dimensions"
    )


def ring_order(box: Location) -> list[Location]:
    """The cells of a box in ring order, from the origin on.

    Each is one hop from the next, and the last from the first if the grid has such a cycle; the
    cores of a chip follow each other, unless only the second core leads back.

    Args:
        box: cells along x, y, z and core.
    """
    chips = [axis for axis in range(CORE) if box[axis] > 1]
    even = [axis for axis in chips if box[axis] % 2 == 0]
    if len(chips) > 1 and even:
        walk = _loop(box, [axis for axis in chips if axis != even[-1]], even[-1])
    elif math.prod(box[:CORE]) > 2 and box[CORE] % 2 == 0:
        return _loop(box, chips, CORE)
    else:
        walk = _snake(box, chips)
    return [_at(chip, CORE, core) for chip in walk for core in range(box[CORE])]


def _loop(box: Location, axes: Sequence[int], back: int) -> list[Location]:
    """A closed walk: a snake over `axes` for each step along `back`, whose size is even."""
    first, *rest = _snake(box, axes)
    walk = [first]
    for step in range(box[back]):
        walk += [_at(cell, back, step) for cell in (reversed(rest) if step % 2 else rest)]
    return walk + [_at(first, back, step) for step in range(box[back] - 1, 0, -1)]


def _snake(box: Location, axes: Sequence[int]) -> list[Location]:
    """A walk over all cells of `axes`, the first varying fastest; each turn is one hop."""
    walk = [_ORIGIN]
    for axis in axes:
        walk = [
            _at(cell, axis, step)
            for step in range(box[axis])
            for cell in (reversed(walk) if step % 2 else walk)
        ]
    return walk


def _boxes(sizes: Location, count: int, order: Sequence[int]) -> Iterator[Location]:
    """Boxes of `count` cells that tile the sizes, those long along the first axes first."""
    if not order:
        if count == 1:
            yield (1, 1, 1, 1)
        return
    axis, *rest = order
    for size in range(min(sizes[axis], count), 0, -1):
        if sizes[axis] % size == 0 and count % size == 0:
            for box in _boxes(sizes, count // size, rest):
                yield _at(box, axis, size)


def _at(cell: Location, axis: int, value: int) -> Location:
    return _location(value if i == axis else c for i, c in enumerate(cell))


def _location(values: Iterator[int]) -> Location:
    x, y, z, core = values
    return x, y, z, core
