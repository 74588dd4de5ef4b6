"""Rows of numbers in finite fields, in the place of tensors that walk along one dimension.

Two ways to compute sums and products are the same if they agree on random numbers of a finite
field: two that differ give different numbers there almost surely (Schwartz 1980, Zippel 1979).
Where tensors are taken apart and put together along one dimension, and else computed element by
element, one row along that dimension stands for all. Two fields of 31 bits leave less than one
chance in 2^40 of an error, for rows of a million elements.

Some tensors have one element along another dimension, where others have more. What has one is alike
for all of those, and its row is theirs where it is broadcast. The sum over the others is a row
times a random number of its own for each dimension that is summed over, as if that were one more
factor of what is summed: all that may follow keeps it apart from everything else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtensor.dialect.mlir import Value, ir, maker_of
from dtensor.passes.ops.attributes import (
    integer,
    integers,
    pad_numbers,
    shape_of,
    slice_numbers,
    splat_number,
)
from dtensor.passes.ops.elementwise import is_scalar_work
from dtensor.passes.ops.patterns import adds, is_zero, spreads_in_place

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
    """The row that stands for each tensor, of any size along one dimension.

    Along others they are as long as `shape` says, or one long; the last ones may be missing.

    Attributes:
        dim: the dimension.
        shape: of the largest tensors that have all their elements along it. A value of which
            nothing is known gets random numbers.
        known: the rows.
        summed: the dimensions that what has a row was summed over, if any.
    """

    dim: int
    shape: Sequence[int]
    known: dict[Value, FieldRow] = field(default_factory=dict)
    summed: dict[Value, frozenset[int]] = field(default_factory=dict)
    _random: Any = field(default_factory=lambda: np.random.default_rng(0))

    def __post_init__(self) -> None:
        self._factors = self._random.integers(2, min(_PRIMES), (len(self.shape), len(_PRIMES), 1))

    def fits(self, value: Value) -> bool:
        """Whether a value is such a tensor, perhaps a shorter or a longer one."""
        found = shape_of(value)
        return self.dim < len(found) <= len(self.shape) and all(
            size in (1, whole) or d == self.dim
            for d, (size, whole) in enumerate(zip(found, self.shape, strict=False))
        )

    def is_whole(self, value: Value) -> bool:
        """Whether a value is such a tensor, of all elements along the dimension."""
        return self.fits(value) and bool(shape_of(value)[self.dim] == self.shape[self.dim])

    def long_dims(self, value: Value) -> frozenset[int]:
        """The other dimensions along which a value has more than one element."""
        sizes = enumerate(shape_of(value))
        return frozenset(d for d, size in sizes if d != self.dim and size != 1)

    def sum_over(self, row: FieldRow, dims: Iterable[int]) -> FieldRow:
        """The row of a sum over some dimensions."""
        for d in dims:
            row = multiplied(row, self._factors[d])
        return row

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
        is_whole = self.is_whole(op.results[0])
        is_work = is_scalar_work(op) and op.name != "stablehlo.add"
        return self.reads(op) is not None and not (is_whole and is_work)

    def reads(self, op: ir.Operation) -> Sequence[Value] | None:
        """The operands that an operation computes a row of; None where it cannot be said."""
        match op.name.removeprefix("stablehlo."):
            case "add" | "subtract" | "multiply" | "negate" | "concatenate" | "slice":
                return list(op.operands)
            case "pad":
                return list(op.operands)[:1] if is_zero(op.operands[1]) else None
        return self._reads_across(op)

    def computed(self, op: ir.Operation) -> FieldRow | None:
        """What an operation gives, of operands that are known; None where it cannot be said."""
        values = self.reads(op)
        result: Value = op.results[0]
        if values is None or not self.fits(result):
            return None
        if len(values) == 1 and self._reads_across(op):
            return self._across(op, values[0])
        rows = [self.known.get(value) for value in values]
        given = [row for row in rows if row is not None]
        is_alike = len({self._others(value) for value in (*values, result)}) == 1
        summed = [self.summed[value] for value in values if value in self.summed]
        if len(given) != len(rows) or not is_alike:
            return None
        if len(summed) > 1 and op.name == "stablehlo.multiply":
            return None
        if summed:
            self.summed[result] = frozenset().union(*summed)
        return self._along(op, given)

    def _others(self, value: Value) -> tuple[int, ...]:
        """The sizes of the dimensions but the one."""
        found = shape_of(value)
        return (*found[: self.dim], *found[self.dim + 1 :])

    def _across(self, op: ir.Operation, value: Value) -> FieldRow | None:
        """What broadcasts, or sums along other dimensions, give."""
        row, summed = self.known.get(value), self.summed.get(value, frozenset())
        new = self.long_dims(op.results[0]) - self.long_dims(value)
        if row is None or summed & new:
            return None
        over = self.long_dims(value) - self.long_dims(op.results[0])
        if summed | over:
            self.summed[op.results[0]] = summed | over
        return self.sum_over(row, over)

    def _reads_across(self, op: ir.Operation) -> list[Value] | None:
        """What is broadcast or summed, if the dimensions of the result are the same ones."""
        if not op.operands:
            return None
        value: Value = op.operands[0]
        rank, maker = len(shape_of(value)), maker_of(value)
        match op.name.removeprefix("stablehlo."):
            case "broadcast_in_dim":
                is_same = spreads_in_place(op)
            case "reduce":
                dims = self._summed_dims(op)
                is_same = dims is not None and dims == list(range(rank - len(dims), rank))
            case "reshape":
                if maker is not None and self._keeps_dims(op, maker):
                    return [maker.operands[0]]
                is_same = self._sizes(op.results[0]) == self._sizes(value)
            case _:
                is_same = False
        return [value] if is_same and rank > self.dim else None

    def _keeps_dims(self, reshape: ir.Operation, op: ir.Operation) -> bool:
        """Whether an operation sums over dimensions in the place of which there are ones then."""
        dims = self._summed_dims(op) if op.name == "stablehlo.reduce" else None
        sizes = self._sizes(op.operands[0]) if dims else []
        ones = [1 if d in (dims or ()) else size for d, size in enumerate(sizes)]
        return bool(dims) and ones == self._sizes(reshape.results[0])

    def _sizes(self, value: Value) -> list[int]:
        """The sizes of all dimensions; those that are missing are one long."""
        found = shape_of(value)
        return [*found, *[1] * (len(self.shape) - len(found))]

    def _summed_dims(self, op: ir.Operation) -> list[int] | None:
        """The dimensions that a reduce sums over; None of any other, or if it is that of rows."""
        if len(op.results) != 1 or not adds(op) or not is_zero(op.operands[1]):
            return None
        dims = sorted(integers(op.attributes["dimensions"]))
        return None if self.dim in dims else dims

    def _along(self, op: ir.Operation, given: list[FieldRow]) -> FieldRow | None:
        """What an operation gives that combines rows, or moves what is in them."""
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
