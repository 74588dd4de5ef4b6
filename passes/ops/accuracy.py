"""How far two right ways to compute an operation may lie apart: what `verify` compares by."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dtensor.passes.ops.rule import OpInfo

ELEMENTARY = 8.0  # roundings of XLA's elementary functions, whose vectors and tails differ
_NARROW = 2.0  # and where they are computed in float32
_SERIES = 64.0  # and of CHLO's, which are long series
_FACTORISATION = 64.0  # per column


@dataclass(frozen=True)
class Accuracy:
    """What a difference between two ways to compute an operation is measured by.

    Attributes:
        roundings: how many roundings of the element type may lie between them.
        length: how many terms are added up in one element, 1 for none.
        wide: whether terms of narrow types are added in float32.
        of_tensor: whether the largest element of the result is the scale of all.
        is_sum: whether the sum of the terms' magnitudes is the scale.
        least: the least scale.
    """

    roundings: float
    length: int = 1
    wide: bool = False
    of_tensor: bool = False
    is_sum: bool = False
    least: float = 0.0


def rounded(op: OpInfo) -> Accuracy:
    """Each element is computed by itself."""
    return Accuracy(_roundings(op))


def series(op: OpInfo) -> Accuracy:
    """A long computation of which nothing more is known."""
    return Accuracy(_SERIES, of_tensor=True)


def cancelling(op: OpInfo) -> Accuracy:
    """As `series`, of terms of about one that cancel where the result is next to zero."""
    return Accuracy(_SERIES, of_tensor=True, least=1.0)


def factorised(op: OpInfo) -> Accuracy:
    """Each column is computed of those before it."""
    sizes = [size for shape in op.operand_shapes for size in shape]
    return Accuracy(_FACTORISATION * max([1, *sizes]), of_tensor=True)


def chained(op: OpInfo) -> Accuracy:
    """Each element is computed of all before it, in one order or another."""
    return Accuracy(_roundings(op) * max([1, *op.operand_shapes[0]]), of_tensor=True)


def summed(
    terms: Callable[[OpInfo], int], rounds_each: bool = False
) -> Callable[[OpInfo], Accuracy]:
    """Sums, of products too: as exact as the sum of the terms' magnitudes.

    Args:
        terms: how many terms one element of the result is the sum of, at most.
        rounds_each: whether terms of narrow types are added in their own type.
    """

    def accuracy(op: OpInfo) -> Accuracy:
        wide = _is_narrow(op) and not rounds_each
        return Accuracy(_roundings(op), max(1, terms(op)), wide, is_sum=True)

    return accuracy


def all_of(operand: int) -> Callable[[OpInfo], int]:
    """As many terms as an operand has elements: a bound for those of one element."""
    return lambda op: math.prod(op.operand_shapes[operand])


def _roundings(op: OpInfo) -> float:
    return _NARROW if _is_narrow(op) else ELEMENTARY


def _is_narrow(op: OpInfo) -> bool:
    return any(element.startswith(("bf16", "f16", "f8")) for element in op.result_elements)
