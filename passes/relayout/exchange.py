"""The local shapes around an all_to_all: which digits are split, and where the others arrive."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from dtensor.passes.relayout.atoms import local_outer
from dtensor.passes.relayout.steps import AllToAll

Shape = tuple[int, ...]


@dataclass(frozen=True)
class DirectExchange:
    """An all_to_all from one dimension to another, each read as rows where need be.

    Attributes:
        operand: shape of the operand.
        split_dim: the dimension of it that is split.
        concat_dim: the dimension in which the parts arrive, one after the other.
        result: shape of the result.
        final: shape of the local tensor afterwards.
    """

    operand: Shape
    split_dim: int
    concat_dim: int
    result: Shape
    final: Shape


def direct_exchange(step: AllToAll, shape: Shape) -> DirectExchange | None:
    """The shapes, if all digits leave one dimension and enter another, neighbours and in order."""
    moves = step.moves
    source, target = moves[0].source[0], moves[0].target[0]
    if source == target:
        return None
    for move, following in pairwise(moves):
        size = move.axis.size
        if following.source != (source, move.source[1] * size):
            return None
        if following.target != (target, move.target[1] * size):
            return None
    outers = {
        source: local_outer(step.before, source, moves[0].source[1]),
        target: local_outer(step.before, target, moves[0].target[1]),
    }
    operand: list[int] = []
    at = {}
    for dim, size in enumerate(shape):
        outer = outers.get(dim, 1)
        if outer > 1:
            operand.append(outer)
        at[dim] = len(operand)
        operand.append(size // outer)
    parts = math.prod(move.axis.size for move in moves)
    result, final = list(operand), list(shape)
    result[at[target]] //= parts
    result[at[source]] *= parts
    final[target] //= parts
    final[source] *= parts
    return DirectExchange(tuple(operand), at[target], at[source], tuple(result), tuple(final))


@dataclass(frozen=True)
class Exchange:
    """Any all_to_all: the split digits become the first dimension, the second one receives.

    Attributes:
        digits: shape of the operand with every digit concerned a dimension of its own.
        to_front: permutation that brings the split digits to the front, in order of the axes.
        front: shape with these digits as one dimension, and one element to receive into.
        parts: shape with the received digits as dimensions at the front.
        to_places: permutation that brings them where they belong.
        final: shape of the local tensor afterwards.
    """

    digits: Shape
    to_front: tuple[int, ...]
    front: Shape
    parts: Shape
    to_places: tuple[int, ...]
    final: Shape


def exchange(step: AllToAll, shape: Shape) -> Exchange:
    """The shapes of an all_to_all between any digits."""
    digits: list[int] = []
    split_at: dict[int, int] = {}  # move -> dimension of `digits`
    order: list[tuple[str, int]] = []  # the result's digits: ("kept", dimension) or ("new", move)
    final: list[int] = []
    for dim, size in enumerate(shape):
        outer_size = size
        done = 1
        for position, index, leaves in _events(step, dim):
            outer = local_outer(step.before, dim, position)
            order.append(("kept", len(digits)))
            digits.append(outer // done)
            done = outer
            if leaves:
                order.append(("new", index))
                outer_size *= step.moves[index].axis.size
            else:
                split_at[index] = len(digits)
                digits.append(step.moves[index].axis.size)
                done *= step.moves[index].axis.size
                outer_size //= step.moves[index].axis.size
        order.append(("kept", len(digits)))
        digits.append(size // done)
        final.append(outer_size)
    sizes = [move.axis.size for move in step.moves]
    split = [split_at[index] for index in range(len(sizes))]
    kept = [d for d in range(len(digits)) if d not in split]
    kept_sizes = [digits[d] for d in kept]
    place = {("new", index): index for index in range(len(sizes))}
    place |= {("kept", d): len(sizes) + i for i, d in enumerate(kept)}
    return Exchange(
        tuple(digits),
        (*split, *kept),
        (math.prod(sizes), 1, *kept_sizes),
        (*sizes, *kept_sizes),
        tuple(place[entry] for entry in order),
        tuple(final),
    )


def _events(step: AllToAll, dim: int) -> Sequence[tuple[int, int, bool]]:
    """What happens in a dimension, by position: a digit leaves the mesh (True) or enters it."""
    events = []
    for index, move in enumerate(step.moves):
        for (at, position), leaves in ((move.source, True), (move.target, False)):
            if at == dim:
                events.append((position, index, leaves))
    return sorted(events)
