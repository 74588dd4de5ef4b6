"""Every place that each sub-axis can have on one tensor.

Many sub-axes could be used in more ways than anybody could list. Where four or more may change,
those of them that split one dimension stand in the order of their numbers. The parts of a mesh axis
that is cut into many moreover stand side by side, and change what they do once at most: the first
of them split one dimension, say, and the others none. Where a search begins with parts that go
together, all of them do the same, side by side, in neighbouring dimensions where one is too small.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, pairwise, product
from operator import contains
from typing import Final

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.layout import REDUCTIONS, Layout
from dtensor.passes.planning.blocks import BlockCounts, bit
from dtensor.passes.propagation.places import MAX_RANK, WHOLE, Places, partial_place, split_place
from dtensor.passes.sharding.specs import is_legal

SubAxes = tuple[range, ...]  # the sub-axes of each mesh axis
HeldPlaces = Sequence[Sequence[int] | None]  # per sub-axis the places it may have; None for any
Majors = Mapping[int, Collection[int]]  # per sub-axis, how many combinations may be more major
NONE_HELD: Final[Majors] = {}
_MANY = 4  # sub-axes, or parts of one mesh axis


def groups_of(subaxes: Sequence[AxisRef]) -> SubAxes:
    """The sub-axes of each mesh axis, by their numbers."""
    found = []
    for _, group in groupby(range(len(subaxes)), key=lambda number: subaxes[number].name):
        numbers = list(group)
        found.append(range(numbers[0], numbers[-1] + 1))
    return tuple(found)


def named_together(subaxes: Sequence[AxisRef], layouts: Iterable[Layout]) -> SubAxes:
    """As `groups_of`, but mesh axes that layouts name side by side alone are one group.

    Each is named, and wherever one is, the next of the mesh stands behind it.
    """
    named, followed = Counter[str](), Counter[tuple[str, str]]()
    for layout in layouts:
        for digits in [dim.digits for dim in layout.dims]:
            names = [name for name, _ in groupby(digits, key=lambda d: getattr(d, "name", ""))]
            named.update(names)
            followed.update(pairwise(names))
        named.update([axis.name for axis, _ in layout.partial])
    found: list[range] = []
    for group in groups_of(subaxes):
        if found:
            pair = subaxes[found[-1][-1]].name, subaxes[group[0]].name
            if 0 < followed[pair] == named[pair[0]] == named[pair[1]]:
                found[-1] = range(found[-1].start, group.stop)
                continue
        found.append(group)
    return tuple(found)


def uses(
    choices: Sequence[Sequence[int]],
    groups: SubAxes,
    sizes: Sequence[int],
    extents: Sequence[int],
    together: bool = False,
) -> Iterator[tuple[int, ...]]:
    """One choice for each sub-axis, from those that it has; one for all of a group together.

    Args:
        choices: per sub-axis; those from 0 on are numbers of factors or dimensions.
        groups: the sub-axes of each mesh axis.
        sizes: of all sub-axes, in devices.
        extents: of the factors or dimensions, in elements.
        together: whether the sub-axes of a group do the same: see `_side_by_side`.
    """
    ways = []
    for group in groups:
        mine = [choices[axis] for axis in group]
        if not together and len(group) < _MANY:
            ways.append(list(product(*mine)))
            continue
        if together:
            parts = [sizes[axis] for axis in group]
            found = [_side_by_side(choice, parts, extents) for choice in mine[0]]
        else:
            found = [
                (one,) * count + (other,) * (len(mine) - count)
                for one, other in product(mine[0], mine[-1])
                for count in range(len(mine) + 1)
            ]
        ways.append(
            [
                way
                for way in dict.fromkeys(found)
                if len(way) == len(mine) and all(map(contains, mine, way))
            ]
        )
    for picked in product(*ways):
        yield tuple(chain(*picked))


def _side_by_side(first: int, parts: Sequence[int], extents: Sequence[int]) -> tuple[int, ...]:
    """The choices of the parts of a mesh axis that all do the same.

    They split one dimension; where it is too small, those that are left split the next that is
    not, as they would split the dimension that a reshape makes of both. There are fewer choices
    where the dimensions end before the parts do.
    """
    if first < 0:
        return (first,) * len(parts)
    found: list[int] = []
    dim, split = first, 1
    for size in parts:
        while dim < len(extents) and (not extents[dim] or extents[dim] % (split * size)):
            if not found:
                return ()
            dim, split = dim + 1, 1
        if dim < len(extents):
            found.append(dim)
            split *= size
    return tuple(found)


def words(
    size: int,
    blocks: Sequence[int],
    axes: Sequence[int],
    sizes: Sequence[int],
    groups: SubAxes = (),
    together: bool = False,
    majors: Majors = NONE_HELD,
) -> Iterator[tuple[tuple[int, int], ...]]:
    """Orders of some sub-axes in one factor, each behind those before it, or behind blocks.

    Args:
        size: of the factor; 0 if it has none.
        blocks: how many of them a sub-axis may stand behind.
        axes: numbers of the sub-axes.
        sizes: of all sub-axes, in devices.
        groups: of all sub-axes.
        together: whether those of a group stand side by side, in the order of the mesh.
        majors: of all sub-axes that are held, where in this factor they may stand.

    Yields:
        Per sub-axis its number and how many combinations are more major.
    """
    many = 2 if together else _MANY
    is_ordered = len(sizes) - len(majors) >= many
    group_of = {axis: group for group in groups if len(group) >= many for axis in group}

    def walk(
        left: Sequence[int], end: int, done: list[tuple[int, int]]
    ) -> Iterator[tuple[tuple[int, int], ...]]:
        if not left:
            yield tuple(sorted(done))
            return
        free = [axis for axis in left if axis not in majors]
        for axis in [a for a in left if a in majors or a == free[0]] if is_ordered else left:
            is_next = bool(done) and done[-1][0] in group_of.get(axis, ())
            ahead = () if is_next else [b for b in blocks if b > end and b % end == 0]
            for start in [end, *ahead]:
                may = axis not in majors or start in majors[axis]
                if may and size and size % (start * sizes[axis]) == 0:
                    rest = [other for other in left if other != axis]
                    yield from walk(rest, start * sizes[axis], [*done, (axis, start)])

    yield from walk(axes, 1, [])


def all_places(
    shape: Sequence[int],
    sizes: Sequence[int],
    blocks: BlockCounts,
    kinds: int,
    groups: SubAxes = (),
    held: HeldPlaces = (),
    together: bool = False,
) -> list[Places]:
    """Every spec of a tensor, replicated first, with the partial values of the given kinds.

    Args:
        shape: of the tensor.
        sizes: of the sub-axes, in devices.
        blocks: per dimension, how many of them a sub-axis may stand behind.
        kinds: of partial values, as `bit` numbers them.
        groups: the sub-axes of each mesh axis; one each if left out.
        held: per sub-axis the places that it may have, None for any.
        together: whether the sub-axes of a mesh axis all do the same.
    """
    held = held or (None,) * len(sizes)
    groups = groups or tuple([range(axis, axis + 1) for axis in range(len(sizes))])
    ahead = blocks or ((),) * len(shape)
    parts = [partial_place(kind) for kind in REDUCTIONS if kinds & bit(kind)]
    found: dict[Places, None] = {}
    majors = [_majors_in(dim, held) for dim in range(len(shape))]
    every = [WHOLE, *range(len(shape)), *parts]
    ways = [every if at is None else [p % MAX_RANK if p > WHOLE else p for p in at] for at in held]
    for combination in uses(ways, groups, sizes, shape, together):
        if len({p for p in combination if p < WHOLE}) > 1:
            continue
        by_dim: dict[int, list[int]] = {}
        for axis, place in enumerate(combination):
            if place > WHOLE:
                by_dim.setdefault(place, []).append(axis)
        options = [
            [(d, w) for w in words(shape[d], ahead[d], axes, sizes, groups, together, majors[d])]
            for d, axes in by_dim.items()
        ]
        for picked in product(*options):
            places = list(combination)
            for dim, word in picked:
                for axis, major in word:
                    places[axis] = split_place(dim, major)
            stays = all([at is None or p in at for at, p in zip(held, places, strict=True)])
            if stays and is_legal(tuple(places), sizes, shape):
                found[tuple(places)] = None
    return list(found)


def _majors_in(dim: int, held: HeldPlaces) -> Majors:
    """Where in a dimension the sub-axes that are held may stand."""
    return {
        axis: [place // MAX_RANK for place in at if place > WHOLE and place % MAX_RANK == dim]
        for axis, at in enumerate(held)
        if at is not None
    }
