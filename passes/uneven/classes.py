"""How long a class of dimensions becomes, so that all layouts given divide them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dtensor.dialect.dim import Dim, digit_size
from dtensor.passes.graph import BORDERS, Graph
from dtensor.passes.propagation.task import Pins

_MOST_MORE = Fraction(5, 4)  # by how much longer, so that more than what is given divides
_MOST_TIMES = 2  # as long, where a plan is made with that length
Length = tuple[Fraction, int]  # over the length of the class, and the true size in elements


@dataclass(frozen=True)
class Asked:
    """A layout given that splits a dimension, or a trial of so many equal parts.

    Attributes:
        scale: length of the dimension over that of the class.
        dim: how it is split; None if that is left to the plan.
        padded: how long it is at the program's border, in elements; None inside.
        times: shards have a multiple of so many elements.
    """

    scale: Fraction
    dim: Dim | None
    padded: int | None
    times: int = 1

    @property
    def split(self) -> int:
        """Into how many parts it is split."""
        return self.times if self.dim is None else self.dim.split


@dataclass
class LengthClass:
    """Dimensions that grow together, each kind of them once: a program has many alike.

    Attributes:
        lengths: theirs.
        asked: the layouts given that split one of them.
        wished: those of dimensions that are better divided too, for operations tie them to others.
        steps: of what a length of scale 1 is a multiple, besides.
        parts: into how many equal parts they should divide besides, if they get not twice as long.
        place: the first of the dimensions that a layout given splits, or a neighbour's shards do.
        may_refit: whether arguments and results may have another length inside for what is wished.
    """

    lengths: dict[Length, None] = field(default_factory=dict)
    asked: dict[Asked, None] = field(default_factory=dict)
    wished: dict[Length, None] = field(default_factory=dict)
    steps: dict[Fraction, None] = field(default_factory=dict)
    parts: int = 1
    place: float = math.inf
    may_refit: bool = False

    def add(self, other: LengthClass, factor: Fraction) -> None:
        """Let another class grow with this one, `factor` times as long."""
        self.parts = max(self.parts, other.parts)
        self.place = min(self.place, other.place)
        if factor == ONE:
            self.lengths |= other.lengths
            self.asked |= other.asked
            self.wished |= other.wished
            self.steps |= other.steps
            return
        self.lengths |= {(factor * scale, size): None for scale, size in other.lengths}
        self.asked |= {replace(each, scale=factor * each.scale): None for each in other.asked}
        self.wished |= {(factor * scale, size): None for scale, size in other.wished}
        self.steps |= {step / factor: None for step in other.steps}

    @property
    def word(self) -> Dim | None:
        """How a member is split, if all layouts that split one do so alike; else None."""
        words = {each.dim for each in self.asked}
        return words.pop() if len(words) == 1 else None

    @property
    def splits(self) -> list[int]:
        """Into how many parts its members are split."""
        return [each.split for each in self.asked]


class Classes:
    """The classes of all dimensions, and what is asked of them.

    `parts` says of classes, by the first dimension of each that a layout given splits, into how
    many equal parts they should divide; of those that none splits, by `~` their first dimension.
    With `may_refit` arguments and results may have another length inside; whether it would matter
    is `is_refitted`.
    """

    def __init__(
        self,
        graph: Graph,
        pins: Pins,
        places: DimClasses,
        parts: Mapping[float, int],
        may_refit: bool,
    ) -> None:
        self.is_refitted = False
        self._may_refit = may_refit
        self._places = places
        self._parts = parts
        self._classes: dict[int, LengthClass] = {}
        for number in range(len(places.sizes)):
            root, scale = places.find(number)
            one = self._classes.setdefault(root, LengthClass(may_refit=may_refit))
            one.lengths[scale, places.sizes[number]] = None
        for index, layout in pins.layouts.items():
            node = graph.nodes[index]
            true = graph.types[node.subject].shape
            padded = layout.padded_shape(true) if node.kind in BORDERS else None
            for d, dim in enumerate(layout.dims):
                if dim.split > 1:
                    number = places.number((node.subject, d))
                    length = None if padded is None else padded[d]
                    scale = places.find(number)[1]
                    one = self._of(number)
                    one.asked[Asked(scale, Dim(dim.digits), length)] = None
                    one.place = min(one.place, number)
        for one in self._classes.values():
            one.parts = parts.get(one.place, 1)
        for key, count in parts.items():
            if key < 0:
                root, scale = places.find(~int(key))
                self._classes[root].asked[Asked(scale, None, None, count)] = None

    def _of(self, number: int) -> LengthClass:
        return self._classes[self._places.find(number)[0]]

    def is_split(self, place: ValueDim) -> bool:
        """Whether a layout given splits a dimension, or one that grows with it."""
        return any(asked.dim for asked in self._of(self._places.number(place)).asked)

    def wish(self, places: Iterable[ValueDim]) -> None:
        """Let dimensions be divided too, where what they grow with is."""
        for place in places:
            number = self._places.number(place)
            one, scale = self._of(number), self._places.find(number)[1]
            one.wished[scale, self._places.sizes[number]] = None

    def growing(self) -> dict[int, tuple[int, Dim | None]]:
        """By class that grows, its length in elements, and how all layouts given split it."""
        found = {}
        for root, one in self._classes.items():
            length = _grown(one) if one.asked else None
            if length is not None:
                found[root] = length, one.word
                self.is_refitted |= _grown(replace(one, may_refit=True)) != length
        return found

    def divisible(self, parts: Sequence[int]) -> dict[float, int]:
        """Per class that grows and could divide into more parts, the most of those given."""
        found = {}
        for one in self._classes.values():
            if one.asked and _grown(one) is not None:
                length = _length(one)
                for most in sorted(parts, reverse=True):
                    if _length(replace(one, parts=most)) != length:
                        found[one.place] = most
                        break
        return found

    def possible(self, parts: Sequence[int]) -> dict[int, dict[float, int]]:
        """Classes that no layout given splits, and that divide if they become little longer.

        Returns:
            By class `~` its first dimension, and the most of `parts` into which it would divide.
        """
        found: dict[int, dict[float, int]] = {}
        for number, size in enumerate(self._places.sizes):
            root, scale = self._places.find(number)
            one = self._classes[root]
            if root in found or one.asked or size < 2:
                continue
            least = max(size / scale for scale, size in one.lengths)
            step = _common(1 / scale for scale, _ in one.lengths)
            for most in sorted(parts, reverse=True):
                length = _ceil(least, _common([step, most / scale]))
                if least < length <= least * _MOST_MORE:
                    found[root] = {~number: most}
                if length <= least * _MOST_MORE:
                    break
        return found

    def tie(
        self,
        tied: Sequence[ValueDim],
        scales: Sequence[int],
        all_divide: bool = False,
        some_stay: bool = False,
        in_steps: bool = False,
    ) -> bool:
        """Let dimensions grow together, lengths in proportion to `scales`, if that is worth it.

        With `in_steps` each has a multiple of its scale in elements.

        It is not worth it where

        - all of them divide as they are,
        - one would become more than twice as long,
        - half of the devices would hold no element of one that no layout given splits,
        - an argument or a result would have another length inside, which it has not now, but for
          `may_refit`,
        - with `all_divide`, one would not divide,
        - with `some_stay`, one that a layout given divides as it is would become longer, or beside
          it one would not divide.
        """
        numbers = [self._places.number(place) for place in tied]
        one = self._merged(numbers, scales)
        if one is None:
            return False
        sizes = self._places.sizes
        unit = self._unit(numbers, scales)
        if in_steps:
            one.steps[1 / unit] = None
        if not any(_grown(self._of(n)) for n in numbers if self._of(n).asked):
            if all(sizes[n] % split == 0 for n in numbers for split in one.splits):
                return False
        length = _length(one)
        most = max(one.splits)
        stay = [n for n in numbers if some_stay and self._divides(n, most)]
        for number, scale in zip(numbers, scales, strict=True):
            long, size = length * unit * scale, sizes[number]
            is_given = most in self._of(number).splits
            least = -(-size // most) * most if is_given else 0
            if long > max(2 * size, least) or (2 * size <= most and not is_given):
                return False
            if ((all_divide or stay) and long % most) or (number in stay and long != size):
                return False
        if self._refits(one, length, numbers) and not self._may_refit:
            return False
        for number in numbers:
            self._classes.pop(self._places.find(number)[0], None)
        self._places.join(tied, scales)
        self._classes[self._places.root(tied[0])] = one
        return True

    def split_alike(self, places: Sequence[ValueDim], scales: Sequence[int]) -> bool:
        """Ask of some dimensions what is asked of another; False if nothing changes.

        Shards have a multiple of as many elements as `scales` say: a window takes so many.
        """
        numbers = [self._places.number(place) for place in places]
        words = [word for n in numbers if (word := self._of(n).word) is not None]
        is_asked = False
        for number, scale in zip(numbers, scales, strict=True) if words else ():
            other = self._of(number)
            if not other.asked and self._places.sizes[number] >= words[0].split:
                own = self._places.find(number)[1]
                other.asked[Asked(own, words[0], None, scale)] = None
                other.place = min(other.place, number)
                other.parts = max(other.parts, self._parts.get(other.place, 1))
                is_asked = True
        return is_asked

    def split_apart(self, places: Sequence[ValueDim], scales: Sequence[int]) -> bool:
        """Ask of dimensions what is asked of another one that divides as it is.

        They are to grow together, in proportion to `scales`, and it where that is needed alone.
        False if all divide, or none that a layout given splits does.
        """
        numbers = [self._places.number(place) for place in places]
        words = [word for n in numbers if (word := self._of(n).word) is not None]
        split = words[0].split if words else 1
        if all(self._places.sizes[n] % split == 0 for n in numbers):
            return False
        if not any(self._divides(n, split) for n in numbers):
            return False
        self.split_alike(places, [scale // math.gcd(*scales) for scale in scales])
        return True

    def _merged(self, numbers: Sequence[int], scales: Sequence[int]) -> LengthClass | None:
        """The classes in one, as the first is scaled; None if no layout splits any."""
        factors: dict[int, Fraction] = {}
        lengths: list[Length] = []
        unit = self._unit(numbers, scales)
        for number, scale in zip(numbers, scales, strict=True):
            root, own = self._places.find(number)
            size, factor = self._places.sizes[number], unit * scale / own
            if factors.setdefault(root, factor) != factor or not size:
                return None
            lengths.append((unit * scale, size))
        if not any(self._classes[root].asked for root in factors):
            return None
        one = LengthClass(may_refit=self._may_refit)
        for root, factor in factors.items():
            one.add(self._classes[root], factor)
        one.wished |= dict.fromkeys(lengths)
        return one

    def _divides(self, number: int, parts: int) -> bool:
        """Whether a dimension that layouts given split is in so many equal stretches as it is."""
        one = self._of(number)
        is_split = one.word is not None and one.word.is_contiguous
        return is_split and not self._places.sizes[number] % parts and _grown(one) is None

    def _unit(self, numbers: Sequence[int], scales: Sequence[int]) -> Fraction:
        """What a scale of 1 is in the class of the first dimension."""
        return self._places.find(numbers[0])[1] / scales[0]

    def _refits(self, one: LengthClass, length: Fraction, numbers: Sequence[int]) -> bool:
        """Whether the program's border has another length, where the dimensions alone keep it."""
        found = not _keeps_borders(one, length) and all(map(self._keeps, numbers))
        self.is_refitted |= found
        return found

    def _keeps(self, number: int) -> bool:
        """Whether the class of a dimension, as it is, keeps the lengths at the program border."""
        one = self._of(number)
        return not one.asked or _keeps_borders(one, _length(one))


def _grown(one: LengthClass) -> int | None:
    """The length of a class; None if its members stay as they are."""
    length = _length(one)
    is_longer = any(scale * length != size for scale, size in one.lengths)
    return int(length) if is_longer else None


def _length(one: LengthClass) -> Fraction:
    """How long a dimension of scale 1 becomes."""
    step = _common([*(1 / scale for scale, _ in one.lengths), *one.steps, *_steps(one)])
    least = max(size / scale for scale, size in one.lengths)
    parts = _common([step, *(one.parts / each.scale for each in one.asked)])
    if _ceil(least, parts) <= _MOST_TIMES * least:
        step = parts
    length = _ceil(least, step)
    most = max(one.splits)
    wished = [most / scale for scale, size in one.wished if size >= most]
    if not wished:
        return length
    longer = _ceil(least, _common([step, *wished]))
    is_kept = _keeps_borders(one, longer) or not _keeps_borders(one, length) or one.may_refit
    return longer if is_kept and longer <= length * _MOST_MORE else length


def _steps(one: LengthClass) -> Iterator[Fraction]:
    for each in one.asked:  # blocks divide too
        blocks = 1 if each.dim is None else math.prod(map(digit_size, each.dim.digits))
        yield each.times * blocks / each.scale


def _keeps_borders(one: LengthClass, length: Fraction) -> bool:
    """Whether arguments and results are as long inside as outside."""
    return all(each.padded in (None, each.scale * length) for each in one.asked)


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
ValueDim = tuple[int, int]  # a value, and one of its dimensions


class DimClasses:
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

    def number(self, place: ValueDim) -> int:
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

    def root(self, place: ValueDim) -> int:
        """The class of a dimension."""
        return self.find(self.number(place))[0]

    def join(self, places: Sequence[ValueDim], lengths: Sequence[int] | None = None) -> bool:
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
