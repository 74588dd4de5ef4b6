"""Specs: layouts as small integers.

A program fixes one list of *sub-axes* (whole mesh axes, or parts of them along one divisor chain).
A spec says for each of them where it stands on a tensor: an integer as in `places`. Specs are
interned per rank, so that a set of specs is a set of integers and a price list is an array.
`dialect.Layout` is the form that users see.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.passes.graph import Graph, Node
from dtensor.passes.propagation.places import WHOLE, LayoutTable, Places, place_of, split_of


class RankSpecs:
    """The specs of tensors of one rank.

    Attributes:
        rank: number of dimensions.
        places: per spec, the place of every sub-axis.
        splits: per spec, into how many different shards it cuts a tensor.
        partial: per spec, whether the devices hold parts that are still to be combined.
        shared: per spec, how many sub-axes split a dimension that another one splits too.
    """

    def __init__(self, rank: int, table: LayoutTable, sizes: Sequence[int]) -> None:
        self.rank = rank
        self.places: list[Places] = []
        self.splits: list[int] = []
        self.partial: list[bool] = []
        self.shared: list[int] = []
        self._ids: dict[Places, int] = {}
        self._shares = np.zeros(0)
        self._table = table
        self._sizes = tuple(sizes)
        self.replicated = self.of((WHOLE,) * len(self._sizes))

    def __len__(self) -> int:
        return len(self.places)

    def of(self, places: Places) -> int:
        """The number of the spec in which every sub-axis has the given place.

        The specs that leave some of the sub-axes out are interned with it: gathers lead there.
        """
        found = self._ids.get(places)
        if found is None:
            found = self._ids[places] = len(self.places)
            self.places.append(places)
            split = 1
            for place, size in zip(places, self._sizes, strict=True):
                if place > WHOLE:
                    split *= size
            self.splits.append(split)
            self.partial.append(min(places, default=WHOLE) < WHOLE)
            dims = [split_of(place)[0] for place in places if place > WHOLE]
            self.shared.append(len(dims) - len(set(dims)))
            for axis, place in enumerate(places):
                if place != WHOLE:
                    self.of((*places[:axis], WHOLE, *places[axis + 1 :]))
        return found

    def shares(self, specs: NDArray[np.intp]) -> NDArray[np.float64]:
        """Per given spec, which part of a tensor one shard is."""
        if len(self._shares) < len(self):
            self._shares = 1.0 / np.array(self.splits, float)
        return self._shares[specs]

    def coarser(self, specs: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Per given spec and any other, whether the other only leaves sub-axes out."""
        places = np.array(self.places, np.int64).reshape(len(self), len(self._sizes))
        found = np.ones((len(specs), len(self)), np.bool_)
        for mine, others in zip(places[specs].T, places.T, strict=True):
            found &= (mine[:, None] == others) | (others == WHOLE)
        return found

    def layout(self, spec: int) -> Layout:
        """The layout that a spec stands for."""
        return self.layout_at(self.places[spec])

    def layout_at(self, places: Places) -> Layout:
        """The layout in which every sub-axis has the given place."""
        return self._table.layout(self.rank, places)


class Specs:
    """The specs of one program, by rank.

    Attributes:
        subaxes: the sub-axes, in the order in which places name them.
        sizes: their sizes in devices.
        devices: their product.
    """

    def __init__(self, subaxes: Sequence[AxisRef], mesh: Mesh) -> None:
        self.subaxes = tuple(subaxes)
        self.sizes = tuple(axis.size for axis in subaxes)
        self.mesh = mesh
        self.devices = math.prod(self.sizes)
        self._table = LayoutTable(subaxes, mesh)
        self._ranks: dict[int, RankSpecs] = {}

    def rank(self, rank: int) -> RankSpecs:
        """The specs of tensors of `rank` dimensions."""
        found = self._ranks.get(rank)
        if found is None:
            found = self._ranks[rank] = RankSpecs(rank, self._table, self.sizes)
        return found

    def sides(
        self, graph: Graph, node: Node
    ) -> tuple[tuple[RankSpecs, ...], tuple[RankSpecs, ...]]:
        """The specs of a node's operands, and those of its results."""
        rank, types = self.rank, graph.types
        ins, outs = node.operands, node.results
        return (
            tuple([rank(len(types[v].shape)) for v in ins]),
            tuple([rank(len(types[v].shape)) for v in outs]),
        )

    def fit_a_border(self, places: Places) -> bool:
        """Whether an argument or a result may have these places.

        Every shard is one contiguous block: none stand ahead of a sub-axis. Parts of one axis that
        split the same dimension stand in their order.
        """
        ends: dict[int, int] = {}
        parts: dict[tuple[int, str], int] = {}
        for place, axis in sorted(zip(places, self.subaxes, strict=True)):
            if place > WHOLE:
                dim, major = split_of(place)
                if major != ends.get(dim, 1) or axis.pre < parts.get((dim, axis.name), 1):
                    return False
                ends[dim], parts[dim, axis.name] = major * axis.size, axis.pre
        return True

    def of_layout(self, layout: Layout) -> int:
        """The spec of a layout whose axes the sub-axes refine."""
        places = tuple([place_of(layout, axis) for axis in self.subaxes])
        return self.rank(layout.rank).of(places)


def is_legal(places: Places, sizes: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether the places fit a tensor: they divide it, and none overlaps another."""
    for place, size in zip(places, sizes, strict=True):
        if place > WHOLE:
            dim, major = split_of(place)
            if shape[dim] % (major * size):
                return False
    return not overlaps(places, sizes)


def overlaps(places: Places, sizes: Sequence[int]) -> bool:
    """Whether two sub-axes would split the same part of a dimension."""
    taken: list[tuple[int, int, int]] = []
    for place, size in zip(places, sizes, strict=True):
        if place > WHOLE:
            dim, major = split_of(place)
            end = major * size
            for other, start, stop in taken:
                if other == dim and start % end and major % stop:
                    return True
            taken.append((dim, major, end))
    return False
