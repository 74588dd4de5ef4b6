"""How long a class of dimensions becomes, so that all layouts given divide them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dtensor.dialect.dim import Dim, digit_size
from dtensor.passes.graph import BORDERS, Graph
from dtensor.passes.propagation.task import Pins

_MOST_MORE = Fraction(5, 4)  # by how much longer, so that more than what is given divides


@dataclass(frozen=True)
class Asked:
    """A layout given that splits a dimension.

    Attributes:
        number: of the dimension.
        dim: how it is split.
        padded: how long it is at the program's border, in elements; None inside.
        times: shards have a multiple of so many elements.
    """

    number: int
    dim: Dim
    padded: int | None
    times: int = 1


@dataclass
class LengthClass:
    """Dimensions that grow together.

    Attributes:
        members: their numbers.
        asked: the layouts given that split one of them.
        wished: dimensions that are better divided too, for operations tie them to others.
    """

    members: list[int]
    asked: list[Asked] = field(default_factory=list)
    wished: list[int] = field(default_factory=list)

    @property
    def word(self) -> Dim | None:
        """How a member is split, if all layouts that split one do so alike; else None."""
        words = {each.dim for each in self.asked}
        return self.asked[0].dim if len(words) == 1 else None

    @property
    def splits(self) -> list[int]:
        """Into how many parts its members are split."""
        return [each.dim.split for each in self.asked]


class Classes:
    """The classes of all dimensions, and what is asked of them."""

    def __init__(self, graph: Graph, pins: Pins, places: Places) -> None:
        self._places = places
        self._classes: dict[int, LengthClass] = {}
        for number in range(len(places.sizes)):
            root = places.find(number)[0]
            self._classes.setdefault(root, LengthClass([])).members.append(number)
        for index, layout in pins.layouts.items():
            node = graph.nodes[index]
            true = graph.types[node.subject].shape
            padded = layout.padded_shape(true) if node.kind in BORDERS else None
            for d, dim in enumerate(layout.dims):
                if dim.split > 1:
                    number = places.number((node.subject, d))
                    length = None if padded is None else padded[d]
                    self._of(number).asked.append(Asked(number, Dim(dim.digits), length))

    def _of(self, number: int) -> LengthClass:
        return self._classes[self._places.find(number)[0]]

    def is_split(self, place: Place) -> bool:
        """Whether a layout given splits a dimension, or one that grows with it."""
        return bool(self._of(self._places.number(place)).asked)

    def growing(self) -> dict[int, tuple[int, Dim | None]]:
        """By class that grows, its length in elements, and how all layouts given split it."""
        found = {}
        for root, one in self._classes.items():
            length = self._grown(one) if one.asked else None
            if length is not None:
                found[root] = length, one.word
        return found

    def tie(self, tied: Sequence[Place], scales: Sequence[int], all_divide: bool) -> bool:
        """Let dimensions grow together, lengths in proportion to `scales`, if that is worth it.

        It is not worth it where

        - all of them divide as they are,
        - one would become more than twice as long,
        - half of the devices would hold no element of one that no layout given splits,
        - an argument or a result would have another length inside, which it has not now,
        - with `all_divide`, one would not divide.
        """
        numbers = [self._places.number(place) for place in tied]
        merged = self._merged(numbers, scales)
        if merged is None:
            return False
        one, scale_of = merged
        sizes = self._places.sizes
        if not any(self._grown(self._of(n)) for n in numbers if self._of(n).asked):
            if all(sizes[n] % split == 0 for n in numbers for split in one.splits):
                return False
        length = self._length(one, scale_of)
        most = max(one.splits)
        for number in numbers:
            long, size = length * scale_of[number], sizes[number]
            is_given = most in self._of(number).splits
            least = -(-size // most) * most if is_given else 0
            if long > max(2 * size, least) or (2 * size <= most and not is_given):
                return False
            if all_divide and long % most:
                return False
        if not _keeps_borders(one, scale_of, length) and all(map(self._keeps, numbers)):
            return False
        for number in numbers:
            self._classes.pop(self._places.find(number)[0], None)
        self._places.join(tied, scales)
        self._classes[self._places.root(tied[0])] = one
        return True

    def split_alike(self, places: Sequence[Place], scales: Sequence[int]) -> bool:
        """Ask of some dimensions what is asked of another; False if nothing changes.

        Shards have a multiple of as many elements as `scales` say: a window takes so many.
        """
        numbers = [self._places.number(place) for place in places]
        words = [word for n in numbers if (word := self._of(n).word) is not None]
        is_asked = False
        for number, scale in zip(numbers, scales, strict=True) if words else ():
            other = self._of(number)
            if not other.asked and self._places.sizes[number] >= words[0].split:
                other.asked.append(Asked(number, words[0], None, scale))
                is_asked = True
        return is_asked

    def _merged(
        self, numbers: Sequence[int], scales: Sequence[int]
    ) -> tuple[LengthClass, dict[int, Fraction]] | None:
        """The classes in one, and the scales of its members; None if no layout splits any."""
        factors: dict[int, Fraction] = {}
        for number, scale in zip(numbers, scales, strict=True):
            root, own = self._places.find(number)
            factor = Fraction(scale) / own
            if factors.setdefault(root, factor) != factor or not self._places.sizes[number]:
                return None
        parts = [self._classes[root] for root in factors]
        if not any(part.asked for part in parts):
            return None
        one = LengthClass(
            [n for part in parts for n in part.members],
            [each for part in parts for each in part.asked],
            [*(n for part in parts for n in part.wished), *numbers],
        )
        scale_of = {}
        for factor, part in zip(factors.values(), parts, strict=True):
            for n, own in self._scales(part.members):
                scale_of[n] = factor * own
        return one, scale_of

    def _keeps(self, number: int) -> bool:
        """Whether the class of a dimension, as it is, keeps the lengths at the program border."""
        one = self._of(number)
        scale_of = dict(self._scales(one.members))
        return not one.asked or _keeps_borders(one, scale_of, self._length(one, scale_of))

    def _scales(self, numbers: Iterable[int]) -> Iterator[tuple[int, Fraction]]:
        for number in numbers:
            yield number, self._places.find(number)[1]

    def _grown(self, one: LengthClass) -> int | None:
        """The length of a class; None if its members stay as they are."""
        scale_of = dict(self._scales(one.members))
        length = self._length(one, scale_of)
        is_longer = any(scale_of[n] * length != self._places.sizes[n] for n in one.members)
        return int(length) if is_longer else None

    def _length(self, one: LengthClass, scale_of: dict[int, Fraction]) -> Fraction:
        """How long a dimension of scale 1 becomes."""
        sizes = self._places.sizes
        step = _common([*(1 / scale_of[n] for n in one.members), *_steps(one, scale_of)])
        least = max(sizes[n] / scale_of[n] for n in one.members)
        length = _ceil(least, step)
        most = max(one.splits)
        wished = [most / scale_of[n] for n in one.wished if sizes[n] >= most]
        if not wished:
            return length
        longer = _ceil(least, _common([step, *wished]))
        is_little = longer <= length * _MOST_MORE
        if is_little and (
            _keeps_borders(one, scale_of, longer) or not _keeps_borders(one, scale_of, length)
        ):
            return longer
        return length


def _steps(one: LengthClass, scale_of: dict[int, Fraction]) -> Iterator[Fraction]:
    for each in one.asked:  # blocks divide too
        blocks = math.prod(map(digit_size, each.dim.digits))
        yield each.times * blocks / scale_of[each.number]


def _keeps_borders(one: LengthClass, scale_of: dict[int, Fraction], length: Fraction) -> bool:
    """Whether arguments and results are as long inside as outside."""
    return all(
        each.padded is None or scale_of[each.number] * length == each.padded for each in one.asked
    )


def _common(steps: Iterable[Fraction]) -> Fraction:
    """The least number that is a multiple of each."""
    found = ONE
    for step in steps:
        top = math.lcm(found.numerator * step.denominator, step.numerator * found.denominator)
        found = Fraction(top, found.denominator * step.denominator)
    return found


def _ceil(least: Fraction, step: Fraction) -> Fraction:
    """The least multiple of a step that is no less."""
    return -(-least // step) * step


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
