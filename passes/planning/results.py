"""Which layouts a result may have that nobody laid out: what follows from what is given."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dtensor.passes.planning.all_places import SubAxes
from dtensor.passes.planning.options import Strategy
from dtensor.passes.propagation.places import Places, dim_of

Ways = Sequence[Collection[int] | None]
"""Per sub-axis, the places that given layouts lead to; None is anywhere."""


def those_that_follow(
    found: Sequence[Strategy],
    start: Strategy,
    places: Sequence[Places],
    ways: Ways,
    groups: SubAxes,
) -> tuple[Strategy, ...]:
    """The strategies of a result that its users would expect.

    Where what is given disagrees, each way to follow it counts. Axes of one dimension stand in any
    order. All of an axis goes one way, but for parts that an operation cannot use where others go.

    Args:
        found: strategies of the result.
        start: where the search starts.
        places: per spec, those of the sub-axes.
        ways: where the result may have them, besides where the start has them.
        groups: the sub-axes of each mesh axis.
    """
    expected = tuple(map(dim_of, places[start.ins[0]]))
    pairs = zip(expected, ways, strict=True)
    dims = [None if way is None else {dim, *map(dim_of, way)} for dim, way in pairs]
    together = [g for g in groups if len(g) > 1 and all(dims[axis] is not None for axis in g)]

    def follows(strategy: Strategy) -> bool:
        have = tuple(map(dim_of, places[strategy.ins[0]]))
        if any(may is not None and dim not in may for dim, may in zip(have, dims, strict=True)):
            return False
        return all(
            len({have[axis] for axis in group}) == 1
            or all(have[axis] == expected[axis] for axis in group)
            for group in together
        )

    return tuple(filter(follows, found))
