"""Rows of numbers in finite fields, in the place of tensors that walk along one dimension.

Two ways to compute sums and products are the same if they agree on random numbers of a finite
field: two that differ give different numbers there almost surely (Schwartz 1980, Zippel 1979).
Where tensors are taken apart and put together along one dimension, and else computed element by
element, one row along that dimension stands for all. Two fields of 31 bits leave less than one
chance in 2^40 of an error, for rows of a million elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtensor.dialect.mlir import Value, ir, maker_of
from dtensor.passes.ops.attributes import (
    integer,
    pad_numbers,
    shape_of,
    slice_numbers,
    splat_number,
)
from dtensor.passes.ops.elementwise import is_scalar_work
from dtensor.passes.ops.patterns import is_zero

FieldRow = NDArray[np.int64]  # of two fields, one below the other

_PRIMES = (2147483647, 2147483629)
_MODULO = np.array(_PRIMES, np.int64)[:, None]


def row_sum(left: FieldRow, right: FieldRow) -> FieldRow:
    """The sums of two rows."""
    return (left + right) % _MODULO


def multiplied(left: FieldRow, right: FieldRow) -> FieldRow:
    """The products of two rows."""
    return left * right % _MODULO


def less(left: FieldRow, right: FieldRow) -> FieldRow:
    """The differences of two rows."""
    return (left - right) % _MODULO


def shifted_row(row: FieldRow, by: int, fill: int = 0) -> FieldRow:
    """A row whose elements stand so many places further on; those that come in are `fill`."""
    found = np.full_like(row, fill)
    size = row.shape[1]
    if abs(by) < size:
        found[:, max(by, 0) : size + min(by, 0)] = row[:, max(-by, 0) : size - max(by, 0)]
    return found


def repeated(number: float, size: int) -> FieldRow | None:
    """A row of one number, which is exact in binary; None where it has no inverse in a field."""
    if not math.isfinite(number):
        return None
    fraction = Fraction(number)
    if any(fraction.denominator % prime == 0 for prime in _PRIMES):
        return None
    each = [fraction.numerator * pow(fraction.denominator, -1, prime) % prime for prime in _PRIMES]
    return np.repeat(np.array(each, np.int64)[:, None], size, axis=1)


@dataclass
class FieldRows:
    """The row that stands for each tensor; their shapes differ along one dimension alone.

    Attributes:
        dim: the dimension.
        shape: of tensors that have all their elements along it. A value of that shape of which
            nothing is known gets random numbers.
        known: the rows.
    """

    dim: int
    shape: Sequence[int]
    known: dict[Value, FieldRow] = field(default_factory=dict)
    _random: Any = field(default_factory=lambda: np.random.default_rng(0))

    def fits(self, value: Value) -> bool:
        """Whether a value is such a tensor, perhaps a shorter or a longer one."""
        found, d = shape_of(value), self.dim
        if len(found) != len(self.shape):
            return False
        return found[:d] == self.shape[:d] and found[d + 1 :] == self.shape[d + 1 :]

    def random(self, value: Value) -> FieldRow:
        """Random numbers for a value, from now on."""
        size = shape_of(value)[self.dim]
        row: FieldRow = self._random.integers(1, min(_PRIMES), (len(_PRIMES), size))
        self.known[value] = row
        return row

    def of(self, value: Value) -> FieldRow | None:
        """The row of a value; None where it has none."""
        left = [value]
        while left:
            at = left[-1]
            if at in self.known or not self.fits(at):
                left.pop()
                continue
            maker, number = maker_of(at), splat_number(at)
            row = None if number is None else repeated(number, shape_of(at)[self.dim])
            if row is None and maker is not None and self._is_followed(maker):
                missing = [v for v in self.reads(maker) or () if v not in self.known]
                if not all(self.fits(v) for v in missing):
                    self.random(at)
                elif missing:
                    left += missing
                    continue
                else:
                    row = self.computed(maker)
            if row is None and at not in self.known:
                self.random(at)
            elif row is not None:
                self.known[at] = row
            left.pop()
        return self.known.get(value)

    def _is_followed(self, op: ir.Operation) -> bool:
        """Whether the row of a result is computed of those of the operands, and is not random.

        Of tensors of the whole shape only those are computed that are put together.
        """
        is_whole = shape_of(op.results[0]) == list(self.shape)
        is_work = is_scalar_work(op) and op.name != "stablehlo.add"
        return self.reads(op) is not None and not (is_whole and is_work)

    def reads(self, op: ir.Operation) -> Sequence[Value] | None:
        """The operands that an operation computes a row of; None where it cannot be said."""
        match op.name.removeprefix("stablehlo."):
            case "add" | "subtract" | "multiply" | "negate" | "concatenate" | "slice":
                return list(op.operands)
            case "pad":
                return list(op.operands)[:1] if is_zero(op.operands[1]) else None
        return None

    def computed(self, op: ir.Operation) -> FieldRow | None:
        """What an operation gives, of operands that are known; None where it cannot be said."""
        values = self.reads(op)
        if values is None or not self.fits(op.results[0]):
            return None
        rows = [self.known.get(value) for value in values]
        given = [row for row in rows if row is not None]
        if len(given) != len(rows):
            return None
        match op.name.removeprefix("stablehlo."), given:
            case "add", [a, b]:
                return row_sum(a, b)
            case "subtract", [a, b]:
                return less(a, b)
            case "multiply", [a, b]:
                return multiplied(a, b)
            case "negate", [a]:
                return less(np.zeros_like(a), a)
            case "concatenate", _:
                is_along = integer(op.attributes["dimension"]) == self.dim
                return np.concatenate(given, axis=1) if is_along else None
            case "slice", [a]:
                start, limit, stride = (numbers[self.dim] for numbers in slice_numbers(op))
                return a[:, start:limit:stride]
            case "pad", [a]:
                return self._padded(op, a)
        return None

    def _padded(self, op: ir.Operation, row: FieldRow) -> FieldRow | None:
        numbers = pad_numbers(op)
        if any(any(each[: self.dim]) or any(each[self.dim + 1 :]) for each in numbers):
            return None
        low, high, gap = (each[self.dim] for each in numbers)
        size = shape_of(op.results[0])[self.dim]
        count = row.shape[1]
        found = np.zeros(
            (len(_PRIMES), max(count + (count - 1) * gap, 0) if count else 0), np.int64
        )
        found[:, :: gap + 1] = row
        ends = ((0, 0), (max(low, 0), max(high, 0)))
        found = np.pad(found, ends)
        return found[:, max(-low, 0) : max(-low, 0) + size]
