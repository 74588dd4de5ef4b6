"""How one dimension of a tensor is cut."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from dtensor.dialect.axes import AxisRef


@dataclass(frozen=True)
class Dim:
    """How one tensor dimension is cut: a word of digits, major to minor.

    A digit is a mesh axis, a part of one, or an integer count of blocks; what remains of the
    dimension is the implicit last digit and is contiguous. `{3, "x"}` is three blocks, each split
    over x.

    Attributes:
        digits: the word, canonical: adjacent integers multiplied, no trailing integer, no 1.
        is_open: whether propagation may add axes to this dimension.
        is_match: whether a relayout leaves this dimension as it is.
        barred: axes that propagation may not add, where the dimension is open.
        priority: the round of propagation in which it begins to spread; until then it is closed.
    """

    digits: tuple[AxisRef | int, ...] = ()
    is_open: bool = False
    is_match: bool = False
    priority: int = 0
    barred: tuple[AxisRef, ...] = ()

    def takes(self, axis: AxisRef) -> bool:
        """Whether propagation may add an axis to this dimension."""
        return self.is_open and not any(axis.overlaps(other) for other in self.barred)

    @cached_property
    def axes(self) -> tuple[AxisRef, ...]:
        """The mesh axes among the digits, major first."""
        return tuple([d for d in self.digits if not isinstance(d, int)])

    def placed(self) -> Iterator[tuple[AxisRef, int]]:
        """Each axis, major first, with the combinations of more major digits."""
        ahead = 1
        for digit in self.digits:
            if not isinstance(digit, int):
                yield digit, ahead
            ahead *= digit_size(digit)

    @cached_property
    def split(self) -> int:
        """Into how many shards the dimension is cut."""
        return math.prod([axis.size for axis in self.axes])

    @cached_property
    def is_contiguous(self) -> bool:
        """Whether a shard is one contiguous range of the dimension."""
        return len(self.axes) == len(self.digits)


WHOLE = Dim()
MATCHED = Dim((), is_open=True, is_match=True)


def digit_size(digit: AxisRef | int) -> int:
    """Number of values a digit takes."""
    return digit if isinstance(digit, int) else digit.size


def canonical_digits(digits: Iterable[AxisRef | int]) -> tuple[AxisRef | int, ...]:
    """The same cut in canonical form; adjacent parts of one axis join."""
    word: list[AxisRef | int] = []
    for digit in digits:
        if digit_size(digit) == 1:
            continue
        last = word[-1] if word else None
        if isinstance(digit, int) and isinstance(last, int):
            word[-1] = last * digit
        elif (
            isinstance(digit, AxisRef)
            and isinstance(last, AxisRef)
            and last.name == digit.name
            and last.pre * last.size == digit.pre
        ):
            word[-1] = AxisRef(last.name, last.pre, last.size * digit.size)
        else:
            word.append(digit)
    while word and isinstance(word[-1], int):
        word.pop()
    return tuple(word)
