"""Blocks of one dimension that change devices, each by itself: rounds of permutes of pieces.

Where a dimension is split in blocks before and in others after, every device lacks pieces of few
others. In each round a device sends one piece and receives one. As many rounds as a device has to
send or to receive pieces are enough (Koenig 1916): devices and pieces are a bipartite multigraph,
whose edges have as many colours as the most that meet in a corner.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from dtensor.passes.ops.rounds import PermuteRound, SentPiece, moved_inside
from dtensor.passes.relayout.problem import RelayoutProblem, State

_MOST_PIECES = 4096  # of all devices; more are not looked at

MixedRadix = tuple[tuple[int, int], ...]  # position and values, of each axis


@dataclass(frozen=True)
class Matched:
    """The sub-axes of one dimension, all of which go to other places in it.

    Attributes:
        dim: the dimension.
        rows: local blocks more major than all that moves.
        moving: the sub-axes that move; the first is major in the number of a device.
        pieces: into how many a device's shard falls.
        rounds: what is sent, counted in pieces.
    """

    dim: int
    rows: int
    moving: tuple[int, ...]
    pieces: int
    rounds: tuple[PermuteRound, ...]


def matchings(problem: RelayoutProblem, state: State) -> Iterator[Matched]:
    """For each dimension in which sub-axes take places of one another, how pieces are exchanged."""
    places = [(state[a], problem.goal[a]) for a in range(len(state))]
    dims = {problem.digit_dims[place] for pair in places for place in pair if place >= 0}
    for dim in sorted(dims):
        sides = [
            {a for a, pair in enumerate(places) if _stands(problem, pair[k], dim)} for k in (0, 1)
        ]
        moving = tuple([a for a in sorted(sides[0]) if len(set(places[a])) > 1])
        if sides[0] == sides[1] and moving:
            arrived = [_digit(problem, state[a]) for a in sides[0].difference(moving)]
            staying = (*problem.fixed_digits(dim), *sorted(arrived))
            found = _matched(problem, state, dim, moving, staying)
            if found is not None:
                yield found


def _stands(problem: RelayoutProblem, place: int, dim: int) -> bool:
    return place >= 0 and problem.digit_dims[place] == dim


def _matched(
    problem: RelayoutProblem, state: State, dim: int, moving: tuple[int, ...], staying: MixedRadix
) -> Matched | None:
    """How the sub-axes that move do so; None where digits that stay lie in their blocks."""
    before, after = ([_digit(problem, at[a]) for a in moving] for at in (state, problem.goal))
    base = math.gcd(*[outer for outer, _ in (*before, *after)])
    if any(base % (outer * size) for outer, size in staying):
        return None  # something inside the blocks that move stays
    digits = [tuple([(outer // base, size) for outer, size in side]) for side in (before, after)]
    ends = [outer * size for side in digits for outer, size in side]
    count, devices = math.lcm(*ends), problem.split(moving)
    if count > _MOST_PIECES or count // devices > 2 * devices:
        return None
    rows = base // math.prod(size for _, size in staying)
    return Matched(dim, rows, moving, count // devices, matching(digits[0], digits[1], count))


def _digit(problem: RelayoutProblem, place: int) -> tuple[int, int]:
    return problem.digit_outers[place], problem.digit_sizes[place]


@lru_cache(maxsize=1024)
def matching(before: MixedRadix, after: MixedRadix, count: int) -> tuple[PermuteRound, ...]:
    """How `count` pieces of a dimension, split by axes at these digits, change places.

    Args:
        before: position and size of each axis, those of the dimension that is numbered by pieces.
        after: likewise; the axes in the same order.
        count: pieces, a multiple of the end of each digit.
    """
    devices = math.prod(size for _, size in before)
    sides = [
        [_device(digits, piece, count) for piece in range(count)] for digits in (before, after)
    ]
    slots = [_slots(side) for side in sides]
    edges = [(*pair, number) for number, pair in enumerate(zip(*sides, strict=True))]
    colours = _coloured([edge for edge in edges if edge[0] != edge[1]], devices)
    kept: list[list[SentPiece]] = [[] for _ in range(devices)]
    sent = [
        ([-1] * devices, [0] * devices, [0] * devices)
        for _ in range(1 + max(colours.values(), default=-1))
    ]
    for source, target, number in edges:
        here, there = slots[0][number], slots[1][number]
        if source == target:
            kept[source] += [SentPiece(here, there, 1)] if here != there else []
            continue
        sources, starts, places = sent[colours[number]]
        sources[target], starts[source], places[target] = source, here, there
    rounds = [PermuteRound(1, *map(tuple, tables)) for tables in sent]
    return (*rounds, *moved_inside(kept))


def _device(digits: MixedRadix, piece: int, count: int) -> int:
    """The number of the device that holds a piece."""
    number = 0
    for outer, size in digits:
        number = number * size + piece // (count // (outer * size)) % size
    return number


def _slots(devices: Sequence[int]) -> list[int]:
    """Which of its device's pieces each one is."""
    seen: dict[int, int] = {}
    found = []
    for device in devices:
        found.append(seen.setdefault(device, 0))
        seen[device] += 1
    return found


def _coloured(edges: Sequence[tuple[int, int, int]], devices: int) -> dict[int, int]:
    """A colour for each edge `(source, target, number)`; those of one corner differ.

    Where source and target lack different colours, the two change places along the path of edges
    of these colours that begins at the target; it cannot end at the source.
    """
    most = max([0, *(n for k in (0, 1) for n in Counter(edge[k] for edge in edges).values())])
    at: list[list[list[tuple[int, int, int] | None]]] = [
        [[None] * most for _ in range(devices)] for _ in (0, 1)
    ]
    for edge in edges:
        free, other = (at[k][edge[k]].index(None) for k in (0, 1))
        corner, side, colour, path = edge[1], 1, free, []
        while (found := at[side][corner][colour]) is not None:
            path.append((found, colour))
            side = 1 - side
            corner, colour = found[side], free + other - colour
        for found, colour in path:
            for k in (0, 1):
                at[k][found[k]][colour] = None
        for found, colour in path:
            for k in (0, 1):
                at[k][found[k]][free + other - colour] = found
        for k in (0, 1):
            at[k][edge[k]][free] = edge
    return {
        edge[2]: colour
        for corner in at[0]
        for colour, edge in enumerate(corner)
        if edge is not None
    }
