"""Digit arithmetic: between an element's index in the whole dimension and in a shard of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.dim import Dim


@dataclass(frozen=True, slots=True)
class IndexDigit:
    """One digit of a dimension's index.

    Attributes:
        axes: the mesh axes that fix it, first major; empty if it varies inside the shard.
        size: number of values.
        global_weight: what one step of the digit adds to the index in the whole dimension.
        local_weight: what it adds to the index in the shard; 0 if axes fix it.
    """

    axes: tuple[AxisRef, ...]
    size: int
    global_weight: int
    local_weight: int


def digits_of(dim: Dim, size: int) -> tuple[IndexDigit, ...]:
    """The digits of a dimension of `size` elements, major first; neighbouring axes are joined.

    The last one is the contiguous rest, unless it has a single value; a dimension of one element
    has no digits.
    """
    word: list[tuple[tuple[AxisRef, ...], int]] = []
    for digit in dim.digits:
        if isinstance(digit, int):
            word.append(((), digit))
        elif word and word[-1][0]:
            axes, count = word[-1]
            word[-1] = ((*axes, digit), count * digit.size)
        else:
            word.append(((digit,), digit.size))
    rest = size // math.prod(count for _, count in word)
    if rest != 1:
        word.append(((), rest))
    digits: list[IndexDigit] = []
    global_weight = local_weight = 1
    for axes, count in reversed(word):
        digits.append(IndexDigit(axes, count, global_weight, 0 if axes else local_weight))
        global_weight *= count
        local_weight *= 1 if axes else count
    return tuple(reversed(digits))


def signed_index(*elements: str) -> str:
    """The signed element type that holds indices of all these integer types."""
    return "i32" if {"i64", "ui32", "ui64"}.isdisjoint(elements) else "i64"


def index_element(size: int) -> str:
    """The element type in which indices into a dimension of `size` elements are computed."""
    return "i32" if size < 2**31 else "i64"
