"""Where along a dimension elements of a value may be other than zero."""

from __future__ import annotations

from collections.abc import Iterable

from dtensor.dialect.mlir import Value, ir, maker_of
from dtensor.passes.cuts.known_windows import update_kind, update_of, window_place
from dtensor.passes.cuts.read_along import read_along
from dtensor.passes.ops.attributes import integer, integers, pad_numbers, shape_of, slice_numbers
from dtensor.passes.ops.magnitude import zero_where
from dtensor.passes.ops.patterns import is_zero
from dtensor.passes.rewriting.names import (
    BROADCAST,
    CONCATENATE,
    DYNAMIC_UPDATE_SLICE,
    PAD,
    REDUCE,
    RESHAPE,
    SCATTER,
    SLICE,
    TRANSFORM,
    TRANSPOSE,
)
from dtensor.passes.rewriting.shards import At

_DEEPEST = 60  # operations one behind the other

Stretch = tuple[int, int]  # where it begins, and ends


class NonZero:
    """Reads each value once, while nothing is erased."""

    def __init__(self) -> None:
        self._known: dict[At, list[Stretch]] = {}
        self._depth = 0

    def of(self, value: Value, dim: int) -> list[Stretch]:
        """Stretches beyond which all is zero, of either sign, in order."""
        if (value, dim) not in self._known:
            self._depth += 1
            op = maker_of(value) if self._depth < _DEEPEST else None
            found = None if op is None or len(op.results) != 1 else self._of_result(op, dim)
            self._depth -= 1
            if found is None:
                found = [] if is_zero(value) else [(0, shape_of(value)[dim])]
            self._known[value, dim] = found
        return self._known[value, dim]

    def _of_result(self, op: ir.Operation, dim: int) -> list[Stretch] | None:
        match op.name:
            case n if n == PAD:
                return self._padded(op, dim)
            case n if n == SLICE:
                starts, limits, strides = slice_numbers(op)
                found = self.of(op.operands[0], dim)
                size = limits[dim] - starts[dim]
                return None if strides[dim] > 1 else joined(found, -starts[dim], size)
            case n if n == CONCATENATE:
                return self._concatenated(op, dim)
            case n if n in (SCATTER, DYNAMIC_UPDATE_SLICE):
                return self._updated(op, dim)
            case n if n == TRANSFORM:
                rank, lengths = len(shape_of(op.operands[0])), integers(op.attributes["fft_length"])
                return self.of(op.operands[0], dim) if dim < rank - len(lengths) else None
            case n if n == REDUCE:
                return None
        return self._computed(op, dim)

    def _padded(self, op: ir.Operation, dim: int) -> list[Stretch] | None:
        if not is_zero(op.operands[1]):
            return None
        low, high, gap = (numbers[dim] for numbers in pad_numbers(op))
        value, size = op.operands[0], shape_of(op.results[0])[dim]
        return joined([(0, size - low - high)] if gap else self.of(value, dim), low, size)

    def _concatenated(self, op: ir.Operation, dim: int) -> list[Stretch]:
        size, place, found = shape_of(op.results[0])[dim], 0, list[Stretch]()
        for value in op.operands:
            found += [(start + place, end + place) for start, end in self.of(value, dim)]
            place += shape_of(value)[dim] if integer(op.attributes["dimension"]) == dim else 0
        return joined(found, 0, size)

    def _updated(self, op: ir.Operation, dim: int) -> list[Stretch] | None:
        place = window_place(op)
        if place is None or update_kind(op) is None:
            return None
        into, size = self.of(op.operands[0], dim), shape_of(op.results[0])[dim]
        new = self.of(update_of(op), dim)
        return joined([*into, *((s + place[dim], e + place[dim]) for s, e in new)], 0, size)

    def _computed(self, op: ir.Operation, dim: int) -> list[Stretch] | None:
        """Of elements by themselves."""
        read = read_along(op, dim) if len(op.operands) else None
        if read is None:
            return None
        size, found = shape_of(op.results[0])[dim], list[list[Stretch]]()
        groups = [[0]] if op.name in (BROADCAST, RESHAPE, TRANSPOSE) else zero_where(op)
        for group in groups:
            parts = list[Stretch]()
            for k in group:
                value = op.operands[k]
                whole = [] if is_zero(value) else [(0, size)]
                parts += self.of(value, read[k]) if k in read else whole
            found.append(joined(parts, 0, size))
        return min(found, key=length_of, default=None)


def joined(parts: Iterable[Stretch], by: int, size: int) -> list[Stretch]:
    """Stretches moved by so many elements, as far as they are in a dimension of this size."""
    found: list[Stretch] = []
    for start, end in sorted((max(0, s + by), min(size, e + by)) for s, e in parts):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        elif start < end:
            found.append((start, end))
    return found


def length_of(parts: Iterable[Stretch]) -> int:
    """Elements of stretches."""
    return sum(end - start for start, end in parts)
