"""Which layouts a result may have that nobody laid out: what follows from what is given."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from dtensor.dialect.layout import Layout
from dtensor.passes.planning.all_places import SubAxes, groups_of
from dtensor.passes.planning.options import Strategy
from dtensor.passes.propagation.places import WHOLE, Places, dim_of
from dtensor.passes.sharding.specs import RankSpecs, Specs

Ways = Sequence[Collection[int] | None]
"""Per sub-axis, the places that given layouts lead to; None is anywhere."""


def cut_axes(specs: Specs, given: Iterable[Layout]) -> SubAxes:
    """The sub-axes of each mesh axis that only the compiler cuts: no given layout names a part."""
    sizes = dict(specs.mesh.axes)
    named = {axis.name for layout in given for axis in layout.axes if axis.size < sizes[axis.name]}
    groups = groups_of(specs.subaxes)
    return tuple([g for g in groups if len(g) > 1 and specs.subaxes[g[0]].name not in named])


def along_whole_axes(strategy: Strategy, specs: RankSpecs, ways: Ways, groups: SubAxes) -> Strategy:
    """The nearest strategy of a result without axes of which a part leads to it and does not fit.

    A part that leads nowhere, as where its half of a dimension is added up, leaves the others.
    """
    places = specs.places[strategy.ins[0]]
    left = [place == WHOLE and way != frozenset() for place, way in zip(places, ways, strict=True)]
    parted = {axis for group in groups if any(left[part] for part in group) for axis in group}
    kept = tuple([WHOLE if axis in parted else place for axis, place in enumerate(places)])
    return Strategy((specs.of(kept),), (), strategy.split)


def those_that_follow(
    found: Sequence[Strategy],
    start: Strategy,
    places: Sequence[Places],
    ways: Ways,
    groups: SubAxes,
) -> tuple[Strategy, ...]:
    """The strategies of a result that its users would expect.

    Where what is given disagrees, each way to follow it counts. Axes of one dimension stand in any
    order. All of an axis goes one way, if its parts do not go where the start has each of them: jax
    has no sharding over a part of an axis. Where an operation cannot use one, all may go anywhere.

    Args:
        found: strategies of the result.
        start: where the search starts.
        places: per spec, those of the sub-axes.
        ways: where the result may have them, besides where the start has them.
        groups: the sub-axes of each mesh axis that only the compiler cuts.
    """
    expected = tuple(map(dim_of, places[start.ins[0]]))
    pairs = zip(expected, ways, strict=True)
    dims = [None if way is None else {dim, *map(dim_of, way)} for dim, way in pairs]
    for group in groups:
        if any(dims[axis] is None for axis in group):
            dims[group[0] : group[-1] + 1] = [None] * len(group)

    def follows(strategy: Strategy) -> bool:
        have = tuple(map(dim_of, places[strategy.ins[0]]))
        if any(may is not None and dim not in may for dim, may in zip(have, dims, strict=True)):
            return False
        return all(
            len({have[axis] for axis in group}) == 1
            or all(have[axis] == expected[axis] for axis in group)
            for group in groups
        )

    return tuple(filter(follows, found))
