"""Dimensions of values, in classes whose lengths are in proportion."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dtensor.passes.graph import Graph

ONE = Fraction(1)
Place = tuple[int, int]  # a value, and one of its dimensions


class Places:
    """The dimensions of all values, numbered; those of one class grow together.

    Attributes:
        sizes: of every dimension, its true size.
    """

    def __init__(self, graph: Graph) -> None:
        self._first = [0]
        for info in graph.types:
            self._first.append(self._first[-1] + len(info.shape))
        self.sizes = [size for info in graph.types for size in info.shape]
        self._parent = list(range(self._first[-1]))
        self._scale = [ONE] * self._first[-1]  # length over that of the parent

    def number(self, place: Place) -> int:
        """The number of a dimension."""
        return self._first[place[0]] + place[1]

    def find(self, number: int) -> tuple[int, Fraction]:
        """The class of a dimension, and its length over that of the class."""
        parent, scale = self._parent, self._scale
        path = []
        while parent[number] != number:
            path.append(number)
            number = parent[number]
        for below in reversed(path[:-1]):
            above = scale[parent[below]]
            if above is not ONE:
                scale[below] = _plain(scale[below] * above)
            parent[below] = number
        return number, scale[path[0]] if path else ONE

    def root(self, place: Place) -> int:
        """The class of a dimension."""
        return self.find(self.number(place))[0]

    def join(self, places: Sequence[Place], lengths: Sequence[int] | None = None) -> bool:
        """Make dimensions grow together.

        Args:
            places: the dimensions.
            lengths: what their lengths are in proportion to; None for their sizes.

        Returns:
            Whether that can be: False if some are in one class already, in another proportion, or
            if some but not all have no elements.
        """
        numbers = [self.number(place) for place in places]
        of = [self.sizes[n] for n in numbers] if lengths is None else lengths
        if 0 in of and any(of):
            return False
        return all(
            self._join(numbers[0], number, ONE if of[0] == length else Fraction(of[0], length))
            for number, length in zip(numbers[1:], of[1:], strict=True)
        )

    def _join(self, one: int, other: int, ratio: Fraction) -> bool:
        (root, scale), (below, factor) = self.find(one), self.find(other)
        if root == below:
            return scale == ratio * factor
        self._parent[below] = root
        if not (scale is ratio is factor is ONE):
            self._scale[below] = _plain(scale / (ratio * factor))
        return True


def _plain(scale: Fraction) -> Fraction:
    return ONE if scale == ONE else scale
