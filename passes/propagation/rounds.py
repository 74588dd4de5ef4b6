"""Rounds: what is given spreads priority by priority, and keeps what it has taken.

A dimension of a given layout may have a priority (`{"x"}p1`; 0 where none is written). In a round,
dimensions of that priority and of lower numbers spread; the others are closed, and nobody follows
them. What an axis splits at the end of a round it splits in all later ones, however dear that is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.layout import Layout
from dtensor.passes.propagation.labels import Label
from dtensor.passes.propagation.pins import Pins
from dtensor.passes.propagation.places import MAX_RANK, WHOLE, place_of

LAST = 1 << 62  # a priority that no round comes behind

Kept = Mapping[int, Label]


@dataclass(frozen=True)
class Round:
    """What one round of one axis may see.

    Attributes:
        priority: the highest number that spreads.
        kept: per node that an earlier round decided on this axis, its label.
        others: of the axes that are decided later in this round, what earlier rounds decided.
    """

    priority: int = LAST
    kept: Kept = field(default_factory=dict)
    others: Sequence[tuple[AxisRef, Kept]] = ()

    def sleeps(self, layout: Layout, axis: AxisRef) -> bool:
        """Whether a given layout splits a dimension over an axis that does not yet spread."""
        place = place_of(layout, axis)
        return place > WHOLE and layout.dims[place % MAX_RANK].priority > self.priority

    def open_dims(self, layout: Layout, axis: AxisRef) -> frozenset[int]:
        """The dimensions of a given layout to which an axis may be added."""
        dims = enumerate(layout.dims)
        return frozenset(d for d, dim in dims if dim.takes(axis) and dim.priority <= self.priority)


ONLY = Round()
"""The one round of a program in which nothing says what comes first."""


def priorities_of(pins: Pins) -> list[int]:
    """The priorities that what is given has, ascending: each is a round."""
    found = {
        dim.priority
        for layout in pins.layouts.values()
        for dim in layout.dims
        if dim.digits or dim.is_open
    }
    return sorted(found)


def keep(kept: dict[int, Label], labels: Sequence[Label]) -> None:
    """Add what a round has split to what later rounds must keep."""
    for index, label in enumerate(labels):
        if label.factor >= 0:
            kept.setdefault(index, label)
