"""What a value consists of along one dimension, through slices, pads and concatenations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dtensor.dialect.mlir import Value, ir, made_by, maker_of
from dtensor.passes.builder import Builder
from dtensor.passes.ops.attributes import (
    integer,
    integers,
    pad_numbers,
    shape_of,
    slice_numbers,
)

SLICE, PAD, CONCATENATE = "stablehlo.slice", "stablehlo.pad", "stablehlo.concatenate"
CUTS = frozenset((SLICE, PAD, CONCATENATE))
BROADCAST, RESHAPE = "stablehlo.broadcast_in_dim", "stablehlo.reshape"
REVERSE = "stablehlo.reverse"
_MOST_ROWS = 8  # that are put around a value one by one


@dataclass(frozen=True, slots=True)
class Source:
    """A value, with other dimensions cut as the operations say.

    Attributes:
        value: the value; a scalar fills whatever asks for it.
        cuts: slices and pads that are still to be applied, but for the dimension at hand.
    """

    value: Value
    cuts: tuple[ir.Operation, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """`count` elements of a source, from `start` on."""

    source: Source
    start: int
    count: int

    @property
    def fills(self) -> bool:
        """Whether it repeats a scalar."""
        return not shape_of(self.source.value)


class Pieces:
    """Reads each value once.

    Attributes:
        lengths: how long the dimensions are that the cuts read so far take from.
    """

    def __init__(self) -> None:
        self.lengths: set[int] = set()
        self._pieces: dict[tuple[Value, int], tuple[Piece, ...]] = {}
        self._cut_dims: dict[Value, tuple[int, ...]] = {}

    def cut_dims(self, op: ir.Operation) -> tuple[int, ...]:
        """The dimensions along which a slice, a pad or a concatenation does something."""
        key: Value = op.results[0]
        found = self._cut_dims.get(key)
        if found is None:
            found = self._cut_dims[key] = tuple(_cut_dims(op))
            sizes = shape_of(op.operands[0])
            self.lengths.update([sizes[d] for d in found])
        return found

    def of(self, value: Value, dim: int) -> tuple[Piece, ...]:
        """What a value consists of along a dimension."""
        key = (value, dim)
        found = self._pieces.get(key)
        if found is None:
            made = maker_of(value)
            pieces = None if made is None else self._through(made, dim)
            if pieces is None:
                pieces = [Piece(Source(value), 0, shape_of(value)[dim])]
            found = self._pieces[key] = tuple(merged(pieces))
        return found

    def _through(self, op: ir.Operation, dim: int) -> list[Piece] | None:
        if op.name == SLICE:
            return self._of_slice(op, dim)
        if op.name == PAD:
            return self._of_pad(op, dim)
        if op.name == CONCATENATE and integer(op.attributes["dimension"]) == dim:
            return [piece for value in op.operands for piece in self.of(value, dim)]
        return self._around(op, dim)

    def _around(self, op: ir.Operation, dim: int) -> list[Piece] | None:
        """A few rows the other way round, or one several times, as `jnp.pad` puts them around."""
        count = shape_of(op.results[0])[dim] if len(op.results) == 1 else 0
        if not 0 < count <= _MOST_ROWS:
            return None
        if op.name == REVERSE and integers(op.attributes["dimensions"]) == [dim]:
            pieces = self.of(op.operands[0], dim)
            rows = [Piece(p.source, p.start + i, 1) for p in pieces for i in range(p.count)]
            return rows[::-1]
        row = repeated_row(op, dim)
        return None if row is None else [*self.of(row, dim)] * count

    def _of_slice(self, op: ir.Operation, dim: int) -> list[Piece] | None:
        start, limit, stride = [numbers[dim] for numbers in slice_numbers(op)]
        if stride != 1:
            return None
        kept = piece_range(self.of(op.operands[0], dim), start, limit)
        return self._cut_elsewhere(op, dim, kept)

    def _of_pad(self, op: ir.Operation, dim: int) -> list[Piece] | None:
        low, high, interior = [numbers[dim] for numbers in pad_numbers(op)]
        if interior:
            return None
        inner, fill = self.of(op.operands[0], dim), op.operands[1]
        size = shape_of(op.operands[0])[dim]
        kept = piece_range(inner, max(-low, 0), size - max(-high, 0))
        kept = self._cut_elsewhere(op, dim, kept)
        if any(p.fills and p.source.value != fill for p in kept):
            return None
        ends = [Piece(Source(fill), 0, max(edge, 0)) for edge in (low, high)]
        return [ends[0], *kept, ends[1]]

    def _cut_elsewhere(self, op: ir.Operation, dim: int, pieces: Sequence[Piece]) -> list[Piece]:
        """Pieces that still have to be cut by `op` along the other dimensions."""
        if not any(d != dim for d in self.cut_dims(op)):
            return list(pieces)
        return [
            p if p.fills else Piece(Source(p.source.value, (*p.source.cuts, op)), p.start, p.count)
            for p in pieces
        ]


def repeated_row(op: ir.Operation, dim: int) -> Value | None:
    """The value whose one element along a dimension an operation repeats."""
    result: Value = op.results[0]
    shape = shape_of(result)
    spread = op if op.name == BROADCAST else None
    if op.name == RESHAPE:  # `jnp.repeat`: a dimension more, which is put together with this one
        spread = made_by(BROADCAST, op.operands[0])
    if spread is None:
        return None
    value: Value = spread.operands[0]
    before, dims = shape_of(value), integers(spread.attributes["broadcast_dimensions"])
    wanted, order = [*shape[:dim], 1, *shape[dim + 1 :]], list(range(len(shape)))
    if spread is not op:
        longer = [*shape[:dim], 1, shape[dim], *shape[dim + 1 :]]
        order = [d + (d > dim) for d in order]
        if shape_of(spread.results[0]) != longer:
            return None
    return value if before == wanted and dims == order else None


def operation_of(value: Value) -> ir.Operation:
    """The operation that makes a value that is no argument."""
    made = maker_of(value)
    assert made is not None, "made just now"
    return made


def _cut_dims(op: ir.Operation) -> Iterator[int]:
    if op.name == CONCATENATE:
        yield integer(op.attributes["dimension"])
        return
    padding: list[tuple[int, ...]] = []
    if op.name == PAD:
        padding = list(zip(*pad_numbers(op), strict=True))
    before, after = shape_of(op.operands[0]), shape_of(op.results[0])
    for d, (size, kept) in enumerate(zip(before, after, strict=True)):
        if size != kept or (padding and any(padding[d])):
            yield d


def piece_range(pieces: Sequence[Piece], start: int, limit: int) -> list[Piece]:
    """The pieces of elements `start` to `limit`."""
    kept, place = [], 0
    for piece in pieces:
        low, high = max(start, place), min(limit, place + piece.count)
        if low < high:
            kept.append(Piece(piece.source, piece.start + low - place, high - low))
        place += piece.count
    return kept


def merged(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces with those joined that follow one another in their source."""
    found: list[Piece] = []
    for piece in pieces:
        last = found[-1] if found else None
        if not piece.count:
            continue
        if last is not None and last.source == piece.source:
            if piece.fills or last.start + last.count == piece.start:
                found[-1] = Piece(last.source, last.start, last.count + piece.count)
                continue
        found.append(piece)
    return found


def without(make: Builder, op: ir.Operation, value: Value, dim: int) -> Value:
    """A slice or a pad of another value, which leaves one dimension as it is."""
    if op.name == SLICE:
        starts, limits, strides = slice_numbers(op)
        starts[dim], limits[dim], strides[dim] = 0, shape_of(value)[dim], 1
        return make.slice(value, starts, limits, strides)
    lows, highs, gaps = pad_numbers(op)
    lows[dim] = highs[dim] = gaps[dim] = 0
    return make.pad(value, op.operands[1], lows, highs, gaps)
