"""A relayout as a problem over integers: which digit each moving sub-axis fixes.

A state says for each moving sub-axis where it is: at a digit (an index into the table of digits,
each a place and a number of values), nowhere (every device along it holds the same), or partial.
Sub-axes that stand where they will stand are fixed and no part of the state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dtensor.dialect.axes import AxisRef, devices_along
from dtensor.dialect.layout import Layout
from dtensor.passes.cost.model import CostModel
from dtensor.passes.propagation.places import (
    WHOLE,
    partial_place,
    place_kind,
    place_of,
    split_of,
    split_place,
)
from dtensor.passes.relayout.sub_axes import align, axis_cuts, layout_at, named_sub_axes

State = tuple[int, ...]
NOWHERE = -1
PARTIAL = -2


class RelayoutProblem:
    """The moving sub-axes of one relayout, their digits, and which digits exclude each other."""

    def __init__(
        self, before: Layout, after: Layout, shape: Sequence[int], itemsize: float, cost: CostModel
    ) -> None:
        self.before = before
        self.mesh = before.mesh
        self.shape = shape
        self.cost = cost
        self.total_bytes = math.prod(shape) * itemsize
        cuts = axis_cuts(before, after)
        align(before, after, cuts)

        self.digit_dims: list[int] = []
        self.digit_outers: list[int] = []
        self.digit_sizes: list[int] = []
        self.conflicts: list[int] = []  # per digit, the set of digits it excludes, as bits
        self._digit_ids: dict[tuple[int, int, int], int] = {}

        self.sub_axes: list[AxisRef] = []
        self.kinds: list[str] = []  # the reduction a sub-axis is partial with, before or after
        self.fixed: dict[AxisRef, int] = {}  # places
        start, goal = [], []
        for sub_axis in named_sub_axes(before, after, cuts):
            here, there = place_of(before, sub_axis), place_of(after, sub_axis)
            if here == there:
                self.fixed[sub_axis] = here
                continue
            partial = [place_kind(place) for place in (here, there) if place < WHOLE]
            assert len(partial) < 2, f"{before} to {after}"
            self.sub_axes.append(sub_axis)
            self.kinds.append(partial[0] if partial else "")
            start.append(self._code(sub_axis, here))
            goal.append(self._code(sub_axis, there))
        self.sizes = [sub_axis.size for sub_axis in self.sub_axes]
        self.start, self.goal = tuple(start), tuple(goal)
        split = {sub_axis: place for sub_axis, place in self.fixed.items() if place > WHOLE}
        self.fixed_split = devices_along(split)
        self._fixed = [(*split_of(place), sub_axis.size) for sub_axis, place in split.items()]
        # Bits of the fixed digits, and the runs of neighbouring digits the moving sub-axes end in.
        self.fixed_bits = 0
        for sub_axis, place in split.items():
            self.fixed_bits |= 1 << self._code(sub_axis, place)
        self.goal_runs = {self.position(self.goal[run[0]]): run for run in self.runs(self.goal)}

    def fixed_digits(self, dim: int) -> list[tuple[int, int]]:
        """Position and size of the digits of a dimension whose sub-axes stay."""
        return [(outer, size) for fixed_dim, outer, size in self._fixed if fixed_dim == dim]

    def _code(self, sub_axis: AxisRef, place: int) -> int:
        if place > WHOLE:
            dim, outer = split_of(place)
            return self.digit(dim, outer, sub_axis.size)
        return NOWHERE if place == WHOLE else PARTIAL

    def digit(self, dim: int, outer: int, size: int) -> int:
        """Index of a digit, made on first use; `NOWHERE` where the dimension does not divide."""
        key = (dim, outer, size)
        found = self._digit_ids.get(key)
        if found is not None:
            return found
        end = outer * size
        if self.shape[dim] % end:
            return NOWHERE
        index = len(self.conflicts)
        bits = 1 << index
        for other, other_dim in enumerate(self.digit_dims):
            if other_dim != dim:
                continue
            other_outer = self.digit_outers[other]
            if other_outer % end and outer % (other_outer * self.digit_sizes[other]):
                bits |= 1 << other
                self.conflicts[other] |= 1 << index
        self._digit_ids[key] = index
        self.digit_dims.append(dim)
        self.digit_outers.append(outer)
        self.digit_sizes.append(size)
        self.conflicts.append(bits)
        return index

    def occupied(self, state: State) -> int:
        """The digits that are taken, as bits."""
        bits = self.fixed_bits
        for place in state:
            if place >= 0:
                bits |= 1 << place
        return bits

    def local_bytes(self, state: State) -> float:
        """Bytes one device holds."""
        split = self.fixed_split
        for place, size in zip(state, self.sizes, strict=True):
            if place >= 0:
                split *= size
        return self.total_bytes / split

    def position(self, place: int) -> tuple[int, int]:
        """Dimension and position of a digit."""
        return self.digit_dims[place], self.digit_outers[place]

    def runs(self, state: State) -> list[tuple[int, ...]]:
        """The moving sub-axes in dimensions, neighbours together, in order of position."""
        return self.neighbours(
            [sub_axis for sub_axis, place in enumerate(state) if place >= 0], state
        )

    def neighbours(self, sub_axes: Sequence[int], state: State) -> list[tuple[int, ...]]:
        """The same of some of them, where `state` puts them."""
        dims, outers = self.digit_dims, self.digit_outers
        runs: list[list[int]] = []
        end = (-1, 0)
        for dim, outer, sub_axis in sorted(
            [(dims[state[a]], outers[state[a]], a) for a in sub_axes]
        ):
            if (dim, outer) == end:
                runs[-1].append(sub_axis)
            else:
                runs.append([sub_axis])
            end = (dim, outer * self.sizes[sub_axis])
        return [tuple(run) for run in runs]

    def axes(self, sub_axes: Sequence[int]) -> tuple[AxisRef, ...]:
        """The axes of some sub-axes."""
        return tuple(self.sub_axes[sub_axis] for sub_axis in sub_axes)

    def split(self, sub_axes: Sequence[int]) -> int:
        """Product of some sub-axes' sizes."""
        return math.prod(self.sizes[sub_axis] for sub_axis in sub_axes)

    def layout(self, state: State) -> Layout:
        """The layout a state stands for."""
        places = dict(self.fixed)
        for sub_axis, digit, kind in zip(self.sub_axes, state, self.kinds, strict=True):
            if digit >= 0:
                places[sub_axis] = split_place(self.digit_dims[digit], self.digit_outers[digit])
            elif digit == PARTIAL:
                places[sub_axis] = partial_place(kind)
        return layout_at(places, len(self.shape), self.mesh)
