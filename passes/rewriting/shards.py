"""Into how many shards what is given splits a dimension, before anything is planned.

What is computed of `x[1:]` may be computed in the size of `x`, where that stays in its place: of a
dimension of which nobody knows that it is split at most twice as many elements, of one that is
split as many as make each device compute no more than if all computed the whole slice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from dtensor.dialect.attributes import layout_of
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import Value, ir
from dtensor.dialect.names import LAYOUT_ATTR
from dtensor.passes.base import PassState
from dtensor.passes.functions import SIDES, boundary_layouts, boundary_types, tensor_shape
from dtensor.passes.graph import Graph
from dtensor.passes.ops.attributes import shape_of
from dtensor.passes.propagation.task import read_pins
from dtensor.passes.uneven.classes import ValueDim
from dtensor.passes.uneven.components import Beside, in_steps, neighbours, split_alike

At = tuple[Value, int]  # a value and one of its dimensions

_TIMES_AS_LONG = 2  # as long, of what nobody is known to split
_SHARE_MOVED = 2  # of a shard are moved at most for more than that


class Shards:
    """Reads the function when it is first asked.

    Attributes:
        graph: what was read; None if nobody asked.
    """

    def __init__(self, function: ir.Operation, state: PassState) -> None:
        self.graph: Graph | None = None
        self._function, self._state, self._meshes = function, state, state.meshes
        self._most = max((mesh.size for mesh in state.meshes.values()), default=1)
        self._near: Beside | None = None
        self._alike: Beside | None = None
        self._stepped: Beside | None = None
        self._kept: dict[ValueDim, int] | None = None
        self._splits: dict[ValueDim, int] | None = None
        self._nearly: dict[ValueDim, int] | None = None
        self._made: dict[At, At] = {}

    def read(self) -> Graph:
        """The function, read with what is known of its shards."""
        return self._known()[0]

    def is_uneven(self, constraints: Sequence[ir.Operation]) -> bool:
        """Whether an argument, a result or a constraint has a layout that does not divide it.

        Unlike the other questions it does not read the function.
        """
        meshes, function = self._meshes, self._function
        given: list[tuple[ir.Type, Layout | None]] = [
            (op.operands[0].type, layout_of(op.attributes[LAYOUT_ATTR], meshes))
            for op in constraints
        ]
        for side in SIDES:
            layouts = boundary_layouts(function, side, meshes)
            given += zip(boundary_types(function, side), layouts, strict=True)
        return any(
            size % dim.split
            for type_, layout in given
            if layout is not None
            for size, dim in zip(tensor_shape(type_) or (), layout.dims, strict=False)
        )

    def fits(self, size: int, count: int, *places: At) -> bool:
        """Whether `count` elements, computed as `places` are, may be computed as some of `size`."""
        return size < _TIMES_AS_LONG * count or (
            self._most * count > size and self.count(*places) * count > size
        )

    def splits(self, *places: At) -> bool:
        """Whether a layout is known to split one of these dimensions of values."""
        return self.count(*places) > 1

    def others_take_all(self, value: Value, dim: int) -> bool:
        """Whether the other dimensions of a value are split over all devices, as far as known."""
        others = [self.count((value, d)) for d in range(len(shape_of(value))) if d != dim]
        return math.prod(others) >= self._most

    def reach(self, size: int, count: int, *places: At) -> int:
        """By how many elements they may move: if they are few of many, by few."""
        is_most = size < _TIMES_AS_LONG * count
        return size if is_most else size // (_SHARE_MOVED * self.count(*places))

    def split_like(self, value: Value, dim: int, as_of: At) -> None:
        """A value is split as another one is, if it was made since the function was read."""
        self._made[value, dim] = self._made.get(as_of, as_of)

    def stands_for(self, value: Value, old: Value) -> None:
        """A value that was made since stands for another one."""
        if self.graph is not None and old in self.graph.number:
            self.graph.number.setdefault(value, self.graph.number[old])

    def forget(self, op: ir.Operation) -> None:
        """An operation is erased: what is created may stand where it stood in memory."""
        if self.graph is not None:
            arguments = [
                value for each in op.regions for block in each for value in block.arguments
            ]
            for value in (*op.results, *arguments):
                self.graph.number.pop(value, None)

    def will_split(self, value: Value, dim: int, shards: int) -> None:
        """A dimension will be split, and so are those that walk together with it."""
        graph, splits = self._known()
        place = (graph.number.get(value, -1), dim)
        if value in graph.number and place not in splits:
            splits[place] = shards
            self._nearly = None
            self._spread(splits, [place], self._beside)

    def count(self, *places: At) -> int:
        """The most shards that one of the dimensions has; 1 where no layout leads to them."""
        graph, splits = self._known()
        return self._most_of(places, graph, splits)

    def nearly(self, *places: At) -> int:
        """Likewise, where the dimension may have some elements more or less than what is split."""
        graph, splits = self._known()
        if self._nearly is None:
            self._nearly = dict(splits)
            self._spread(self._nearly, list(splits), self._nearly_beside)
        return self._most_of(places, graph, self._nearly)

    def keeps(self, value: Value, dim: int) -> bool:
        """Whether a dimension walks together with one of its size that a layout given splits.

        Then it becomes no longer than that layout asks for.
        """
        graph, _ = self._known()
        if self._kept is None:
            self._kept = self._given()
            self._spread(self._kept, list(self._kept), self._kept_beside)
        return (graph.number.get(value, -1), dim) in self._kept

    def _most_of(self, places: Sequence[At], graph: Graph, splits: dict[ValueDim, int]) -> int:
        found = 1
        for place in places:
            value, dim = place if place[0] in graph.number else self._made.get(place, place)
            number = graph.number.get(value)
            found = max(found, 1 if number is None else splits.get((number, dim), 1))
        return found

    def _known(self) -> tuple[Graph, dict[ValueDim, int]]:
        """The shards of each dimension that walks together with one that a layout given splits."""
        if self.graph is None or self._splits is None:
            self.graph = self._state.graph_of(self._function)
            self._near, self._alike = neighbours(self.graph), split_alike(self.graph)
            self._stepped = in_steps(self.graph)
            self._splits = self._given()
            self._spread(self._splits, list(self._splits), self._beside)
        return self.graph, self._splits

    def _given(self) -> dict[ValueDim, int]:
        """The shards of each dimension that a layout given splits."""
        assert self.graph is not None
        found = dict[ValueDim, int]()
        for index, layout in read_pins(self.graph, self._meshes).layouts.items():
            for d, dim in enumerate(layout.dims):
                if dim.split > 1:
                    found.setdefault((self.graph.nodes[index].subject, d), dim.split)
        return found

    def _spread(
        self,
        found: dict[ValueDim, int],
        left: list[ValueDim],
        beside: Callable[[ValueDim, int], Iterator[ValueDim]],
    ) -> None:
        """Find what is split as these are: what is `beside` one, of so many shards."""
        while left:
            place = left.pop()
            for other in beside(place, found[place]):
                if other not in found:
                    found[other] = found[place]
                    left.append(other)

    def _kept_beside(self, place: ValueDim, _: int) -> Iterator[ValueDim]:
        """What walks together with a dimension in its size."""
        assert self._near is not None
        size = self._size(place)
        yield from (other for other in self._near(place) if self._size(other) == size)

    def _beside(self, place: ValueDim, shards: int) -> Iterator[ValueDim]:
        """What walks together with a dimension, and what could be split alike."""
        assert self._near is not None
        assert self._alike is not None
        size = self._size(place)
        yield from self._near(place)
        yield from (o for o in self._alike(place) if self._is_even(size, self._size(o), shards))

    def _nearly_beside(self, place: ValueDim, shards: int) -> Iterator[ValueDim]:
        """That, what walks in steps, and what few elements are cut off from or put on."""
        assert self._alike is not None
        assert self._stepped is not None
        size = self._size(place)
        yield from self._beside(place, shards)
        yield from (other for other in self._stepped(place) if self._size(other) > shards)
        for other in self._alike(place):
            if max(size, self._size(other)) < _TIMES_AS_LONG * min(size, self._size(other)):
                yield other

    @staticmethod
    def _is_even(size: int, other: int, shards: int) -> bool:
        """Steps, or gaps between elements: what is cut off otherwise need not be split."""
        return not (size % shards or other % shards) and 0 in (
            size % max(other, 1),
            other % max(size, 1),
        )

    def _size(self, place: ValueDim) -> int:
        assert self.graph is not None
        return self.graph.types[place[0]].shape[place[1]]
