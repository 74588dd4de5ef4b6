"""A relayout as a problem over integers: which place each moving atom takes.

A state says for each moving atom where it is: a place (an index into the table of places), nowhere
(every device along it holds the same), or partial. Atoms that stand where they will stand are
fixed and no part of the state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.layout import Layout
from dtensor.passes.cost.model import CostModel
from dtensor.passes.relayout.places import (
    Position,
    align,
    atom_kinds,
    atom_positions,
    axis_cuts,
    layout_from,
)

State = tuple[int, ...]
NOWHERE = -1
PARTIAL = -2


class Problem:
    """The moving atoms of one relayout, their places, and which places exclude each other."""

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
        source, target = atom_positions(before, cuts), atom_positions(after, cuts)
        source_kinds, target_kinds = atom_kinds(before, cuts), atom_kinds(after, cuts)

        self.place_dims: list[int] = []
        self.place_outers: list[int] = []
        self.place_sizes: list[int] = []
        self.conflicts: list[int] = []  # per place, the set of places it excludes, as bits
        self._place_ids: dict[tuple[int, int, int], int] = {}

        self.atoms: list[AxisRef] = []
        self.kinds: list[str] = []  # the reduction an atom is partial with, before or after
        self.fixed: list[tuple[AxisRef, Position]] = []
        self.fixed_kinds: list[tuple[AxisRef, str]] = []
        start, goal = [], []
        for atom in {**source, **target, **source_kinds, **target_kinds}:
            here, there = source.get(atom), target.get(atom)
            kind, new_kind = source_kinds.get(atom), target_kinds.get(atom)
            assert not (kind and new_kind and kind != new_kind), f"{before} to {after}"
            if here == there and kind == new_kind:
                if here is not None:
                    self.fixed.append((atom, here))
                if kind is not None:
                    self.fixed_kinds.append((atom, kind))
                continue
            self.atoms.append(atom)
            self.kinds.append(kind or new_kind or "")
            start.append(self._code(atom, here, kind))
            goal.append(self._code(atom, there, new_kind))
        self.sizes = [atom.size for atom in self.atoms]
        self.start, self.goal = tuple(start), tuple(goal)
        self.fixed_split = math.prod(atom.size for atom, _ in self.fixed)
        # Bits of the fixed places, and the runs of neighbouring places the moving atoms end in.
        self.fixed_bits = 0
        for atom, (dim, outer) in self.fixed:
            self.fixed_bits |= 1 << self.place(dim, outer, atom.size)
        self.goal_runs = {(self.first(run)): run for run in self.runs(self.goal)}

    def _code(self, atom: AxisRef, position: Position | None, kind: str | None) -> int:
        if position is not None:
            return self.place(*position, atom.size)
        return NOWHERE if kind is None else PARTIAL

    def place(self, dim: int, outer: int, size: int) -> int:
        """Index of a place, made on first use; `NOWHERE` where the dimension does not divide."""
        key = (dim, outer, size)
        found = self._place_ids.get(key)
        if found is not None:
            return found
        end = outer * size
        if self.shape[dim] % end:
            return NOWHERE
        index = len(self.conflicts)
        bits = 1 << index
        for other, other_dim in enumerate(self.place_dims):
            if other_dim != dim:
                continue
            other_outer = self.place_outers[other]
            if other_outer % end and outer % (other_outer * self.place_sizes[other]):
                bits |= 1 << other
                self.conflicts[other] |= 1 << index
        self._place_ids[key] = index
        self.place_dims.append(dim)
        self.place_outers.append(outer)
        self.place_sizes.append(size)
        self.conflicts.append(bits)
        return index

    def occupied(self, state: State) -> int:
        """The places that are taken, as bits."""
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

    def first(self, run: Sequence[int]) -> Position:
        """Dimension and position of the first atom of a run of `goal`."""
        place = self.goal[run[0]]
        return self.place_dims[place], self.place_outers[place]

    def runs(self, state: State) -> list[tuple[int, ...]]:
        """The moving atoms that stand in dimensions, neighbours together, in order of position."""
        placed = sorted(
            (self.place_dims[place], self.place_outers[place], atom)
            for atom, place in enumerate(state)
            if place >= 0
        )
        runs: list[list[int]] = []
        end: Position = (-1, 0)
        for dim, outer, atom in placed:
            if (dim, outer) == end:
                runs[-1].append(atom)
            else:
                runs.append([atom])
            end = (dim, outer * self.sizes[atom])
        return [tuple(run) for run in runs]

    def axes(self, atoms: Sequence[int]) -> tuple[AxisRef, ...]:
        """The axes of some atoms."""
        return tuple(self.atoms[atom] for atom in atoms)

    def split(self, atoms: Sequence[int]) -> int:
        """Product of some atoms' sizes."""
        return math.prod(self.sizes[atom] for atom in atoms)

    def layout(self, state: State) -> Layout:
        """The layout a state stands for."""
        placed = [
            (self.atoms[atom], (self.place_dims[place], self.place_outers[place]))
            for atom, place in enumerate(state)
            if place >= 0
        ]
        partial = [
            (self.atoms[atom], self.kinds[atom])
            for atom, place in enumerate(state)
            if place == PARTIAL
        ]
        return layout_from(
            [*self.fixed, *placed], [*self.fixed_kinds, *partial], len(self.shape), self.mesh
        )
