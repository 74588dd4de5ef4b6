"""What a value consists of along one dimension: pieces of other values, each at its place.

`jnp.roll(x, 2)` is two pieces of `x`, the other way round; `jnp.pad(x, 1)` is all of `x`, one
element further on, between two pieces of zero. The patterns of slices, pads and concatenations are
found in pieces, and not in the operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from dtensor.dialect.mlir import Value, ir, made_by, maker_of
from dtensor.passes.builder import Builder
from dtensor.passes.ops.attributes import (
    integer,
    integers,
    pad_numbers,
    shape_of,
    slice_numbers,
    spread_dims,
)
from dtensor.passes.rewriting.names import (
    BROADCAST,
    CONCATENATE,
    CUTS,
    PAD,
    RESHAPE,
    REVERSE,
    SLICE,
)
from dtensor.passes.rewriting.shards import At

_DEEPEST = 100  # operations one behind the other
_MOST_ROWS = 8  # that are put around a value one by one


@dataclass(frozen=True, slots=True)
class Source:
    """A dimension of a value, after what some operations do along the others.

    Attributes:
        value: the value; a scalar fills whatever asks for it.
        dim: the dimension.
        ops: slices, pads and reversals that are still to be applied along the other dimensions.
    """

    value: Value
    dim: int = 0
    ops: tuple[ir.Operation, ...] = ()

    @property
    def at(self) -> At:
        """The value and the dimension."""
        return self.value, self.dim

    @property
    def size(self) -> int:
        """Elements of the dimension."""
        return shape_of(self.value)[self.dim]


@dataclass(frozen=True, slots=True)
class Piece:
    """Elements `start`, `start + step`, ... of a source, at `place`, `place + stride`, ...

    Attributes:
        source: whose elements they are.
        start: the first.
        count: how many.
        place: where that stands.
        step: -1 of what was reversed, 0 of one that is repeated, else 1.
        stride: 0 of what is added up in one place, else 1.
    """

    source: Source
    start: int
    count: int
    place: int = 0
    step: int = 1
    stride: int = 1

    @property
    def fills(self) -> bool:
        """Whether it repeats a scalar."""
        return not shape_of(self.source.value)

    @property
    def is_whole(self) -> bool:
        """Whether it is all that its source has."""
        return not self.fills and self.start == 0 and self.count == self.source.size

    @property
    def end(self) -> int:
        """The place behind the last one."""
        return self.place + (self.count - 1) * self.stride + 1

    @property
    def pairs(self) -> Iterator[tuple[int, int]]:
        """Each element, and where it stands."""
        for i in range(self.count):
            yield self.start + i * self.step, self.place + i * self.stride

    @property
    def transposed(self) -> Piece:
        """The piece of the gradient: elements go back from their places to where they came from."""
        return Piece(self.source, self.place, self.count, self.start, self.stride, self.step)

    @property
    def rows(self) -> Iterable[Piece]:
        """Itself if its elements come in order, else one element each."""
        if self.step == 1 or self.fills:
            return (self,)
        return (Piece(self.source, start, 1, place) for start, place in self.pairs)

    def next(self, count: int) -> Piece:
        """The next `count` elements, in the same steps."""
        start, place = self.start + self.count * self.step, self.place + self.count * self.stride
        return Piece(self.source, start, count, place, self.step, self.stride)

    def moved(self, by: int) -> Piece:
        """The same, further on."""
        place = self.place + by
        return Piece(self.source, self.start, self.count, place, self.step, self.stride)

    def after(self, op: ir.Operation) -> Piece:
        """The same of a source to which an operation is still to be applied along others."""
        source = self.source
        return self if self.fills else replace(self, source=replace(source, ops=(*source.ops, op)))

    def cut(self, start: int, count: int) -> Iterator[Piece]:
        """The part of it that is in a slice of `count` places from `start` on, if any."""
        first, end = max(self.place, start), min(self.end, start + count)
        if first < end:
            kept = end - first if self.stride else self.count
            begin = self.start + (first - self.place) * self.step
            yield Piece(self.source, begin, kept, first - start, self.step, self.stride)

    def reversed(self, size: int) -> Piece:
        """The piece after all of the `size` places are reversed."""
        if not self.stride:
            return replace(self, place=size - 1 - self.place)
        last, place = self.start + (self.count - 1) * self.step, size - self.place - self.count
        return Piece(self.source, last, self.count, place, -self.step)


class Reader:
    """Reads each value once, through slices, pads, concatenations, reversals and repetitions."""

    def __init__(self) -> None:
        self._pieces: dict[At, tuple[Piece, ...]] = {}
        self._cut_dims: dict[Value, tuple[int, ...]] = {}
        self._depth = 0

    def cut_dims(self, op: ir.Operation) -> tuple[int, ...]:
        """The dimensions along which a slice, a pad or a concatenation does something."""
        key: Value = op.results[0]
        if key not in self._cut_dims:
            self._cut_dims[key] = _cut_dims(op)
        return self._cut_dims[key]

    def of(self, value: Value, dim: int) -> tuple[Piece, ...]:
        """The pieces of a value along a dimension; the value itself where no others are known."""
        found = self._pieces.get((value, dim))
        if found is None:
            op = maker_of(value)
            self._depth += 1
            pieces = None if op is None or self._depth > _DEEPEST else self.of_result(op, dim)
            self._depth -= 1
            if pieces is None:
                pieces = [Piece(Source(value, dim), 0, shape_of(value)[dim])]
            found = self._pieces[value, dim] = tuple(merged(pieces))
        return found

    def of_result(self, op: ir.Operation, dim: int) -> Sequence[Piece] | None:
        """The pieces of the result of an operation; None if it has none but itself."""
        if op.name == SLICE:
            starts, _, strides = slice_numbers(op)
            return self._cut(op, dim, starts[dim]) if strides[dim] == 1 else None
        if op.name == PAD:
            return self._padded(op, dim)
        if op.name == CONCATENATE and integer(op.attributes["dimension"]) == dim:
            found, place = list[Piece](), 0
            for value in op.operands:
                found += [piece.moved(place) for piece in self.of(value, dim)]
                place += shape_of(value)[dim]
            return found
        if op.name == REVERSE and integers(op.attributes["dimensions"]) == [dim]:
            size = shape_of(op.results[0])[dim]
            return [piece.reversed(size) for piece in reversed(self.of(op.operands[0], dim))]
        row = repeated_row(op, dim)
        pieces = () if row is None else self.of(row, dim)
        if [piece.count for piece in pieces] != [1]:
            return None  # more than one are a sum
        return [replace(pieces[0], count=shape_of(op.results[0])[dim], step=0)]

    def _padded(self, op: ir.Operation, dim: int) -> list[Piece] | None:
        low, high, gap = [numbers[dim] for numbers in pad_numbers(op)]
        if gap:
            return None
        kept, fill = self._cut(op, dim, -low), Source(op.operands[1])
        if any(piece.fills and piece.source != fill for piece in kept):
            return None
        behind = Piece(fill, 0, max(high, 0), shape_of(op.results[0])[dim] - high, step=0)
        return [Piece(fill, 0, max(low, 0), step=0), *kept, behind]

    def _cut(self, op: ir.Operation, dim: int, start: int) -> list[Piece]:
        """The pieces of what a slice or a pad takes, from `start` on."""
        count = shape_of(op.results[0])[dim]
        kept = cut(self.of(op.operands[0], dim), start, count)
        if not any(d != dim for d in self.cut_dims(op)):
            return kept
        return [piece.after(op) for piece in kept]


class Operands(Reader):
    """Reads one operation, and not what makes its operands."""

    def of(self, value: Value, dim: int) -> tuple[Piece, ...]:
        """All of a value."""
        return (Piece(Source(value, dim), 0, shape_of(value)[dim]),)


class Pieces(Reader):
    """Reads what one splice can put together: elements in order, and few others one by one."""

    def of_result(self, op: ir.Operation, dim: int) -> Sequence[Piece] | None:
        if op.name in CUTS:
            return super().of_result(op, dim)
        if op.name not in (REVERSE, BROADCAST, RESHAPE):
            return None
        if not 0 < shape_of(op.results[0])[dim] <= _MOST_ROWS:
            return None
        found = super().of_result(op, dim)
        return None if found is None else [row for piece in found for row in piece.rows]

    def through(self, value: Value, dim: int) -> tuple[Piece, ...] | None:
        """The pieces of a value; None if it has none but itself."""
        found = self.of(value, dim)
        return None if [piece.source for piece in found] == [Source(value, dim)] else found


def cut(pieces: Iterable[Piece], start: int, count: int) -> list[Piece]:
    """What a slice of `count` places from `start` on has of pieces."""
    return [kept for piece in pieces for kept in piece.cut(start, count)]


def merged(pieces: Iterable[Piece]) -> list[Piece]:
    """The pieces with those joined that follow one another in their source; none is empty."""
    found: list[Piece] = []
    for piece in pieces:
        if piece.count == 1 and not piece.fills:
            piece = replace(piece, step=1, stride=1)
        if found and piece == found[-1].next(piece.count):
            found[-1] = replace(found[-1], count=found[-1].count + piece.count)
        elif piece.count:
            found.append(piece)
    return found


def _cut_dims(op: ir.Operation) -> tuple[int, ...]:
    if op.name == CONCATENATE:
        return (integer(op.attributes["dimension"]),)
    before, after = shape_of(op.operands[0]), shape_of(op.results[0])
    padding = [*zip(*pad_numbers(op), strict=True)] if op.name == PAD else [()] * len(before)
    rows = enumerate(zip(before, after, padding, strict=True))
    return tuple([d for d, (size, kept, pads) in rows if size != kept or any(pads)])


def kept_of(op: ir.Operation | None) -> list[tuple[int, int]] | None:
    """By dimension, the first element that a slice keeps, or a pad that crops, and the end.

    None of what has a stride or adds anything, and of other operations.
    """
    if op is not None and op.name == SLICE:
        starts, limits, strides = slice_numbers(op)
        return list(zip(starts, limits, strict=True)) if set(strides) <= {1} else None
    if op is None or op.name != PAD:
        return None
    lows, highs, gaps = pad_numbers(op)
    if max([0, *lows, *highs, *gaps]) > 0:
        return None
    rows = zip(lows, highs, shape_of(op.operands[0]), strict=True)
    return [(-low, size + high) for low, high, size in rows]


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
    before, dims = shape_of(value), spread_dims(spread)
    wanted, order = [*shape[:dim], 1, *shape[dim + 1 :]], list(range(len(shape)))
    if spread is not op:
        longer = [*shape[:dim], 1, shape[dim], *shape[dim + 1 :]]
        order = [d + (d > dim) for d in order]
        if shape_of(spread.results[0]) != longer:
            return None
    return value if before == wanted and dims == order else None


def without_dim(
    make: Builder, op: ir.Operation, value: Value, dim: int, low: int = 0, high: int = 0
) -> Value:
    """A slice, a pad or a reversal, applied to another value, but for one dimension.

    That is padded by `low` and `high` if it is a pad, and stays as it is else.
    """
    if op.name == REVERSE:
        return make.like(op, [value], dim, shape_of(value)[dim])
    if op.name == SLICE:
        starts, limits, strides = slice_numbers(op)
        starts[dim], limits[dim], strides[dim] = 0, shape_of(value)[dim], 1
        return make.slice(value, starts, limits, strides)
    lows, highs, gaps = pad_numbers(op)
    lows[dim], highs[dim], gaps[dim] = low, high, 0
    return make.pad(value, op.operands[1], lows, highs, gaps)
