"""Every place that each sub-axis can have on one tensor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from dtensor.dialect.layout import REDUCTIONS
from dtensor.passes.planning.blocks import Blocks
from dtensor.passes.planning.partials import bit
from dtensor.passes.propagation.places import WHOLE, partial_place, split_place
from dtensor.passes.sharding.specs import Places, is_legal


def words(
    size: int, blocks: Sequence[int], axes: Sequence[int], sizes: Sequence[int]
) -> Iterator[tuple[tuple[int, int], ...]]:
    """Every order of some sub-axes in one factor, each behind those before it, or behind blocks.

    Yields:
        Per sub-axis its number and how many combinations are more major.
    """

    def walk(
        left: Sequence[int], end: int, done: list[tuple[int, int]]
    ) -> Iterator[tuple[tuple[int, int], ...]]:
        if not left:
            yield tuple(sorted(done))
            return
        for axis in left:
            for start in [end, *(b for b in blocks if b > end and b % end == 0)]:
                if size and size % (start * sizes[axis]) == 0:
                    rest = [other for other in left if other != axis]
                    yield from walk(rest, start * sizes[axis], [*done, (axis, start)])

    yield from walk(axes, 1, [])


def all_places(
    shape: Sequence[int], sizes: Sequence[int], blocks: Blocks, kinds: int
) -> list[Places]:
    """Every spec of a tensor, replicated first, with the partial values of the given kinds."""
    parts = [partial_place(kind) for kind in REDUCTIONS if kinds & bit(kind)]
    found: dict[Places, None] = {}
    for combination in product([WHOLE, *range(len(shape)), *parts], repeat=len(sizes)):
        if len({p for p in combination if p < WHOLE}) > 1:
            continue
        by_dim: dict[int, list[int]] = {}
        for axis, place in enumerate(combination):
            if place > WHOLE:
                by_dim.setdefault(place, []).append(axis)
        options = [
            [(d, w) for w in words(shape[d], blocks[d] if blocks else (), axes, sizes)]
            for d, axes in by_dim.items()
        ]
        for picked in product(*options):
            places = list(combination)
            for dim, word in picked:
                for axis, major in word:
                    places[axis] = split_place(dim, major)
            if is_legal(tuple(places), sizes, shape):
                found[tuple(places)] = None
    return list(found)
