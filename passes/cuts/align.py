"""What is computed of slices, computed in the size of what was sliced.

`x[2:] + x[:-2]` has two rows less than `x`, and no axis that divides `x` divides it. Whoever puts
it into an array as long as `x` asks for it in that size, at its place: then the slices are rolls of
`x`, and what stands around the elements that matter is chosen away by who asks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from dtensor.dialect.build import splice
from dtensor.dialect.mlir import Value, ir, maker_of
from dtensor.dialect.names import DIM, SPLICE
from dtensor.passes.builder import Builder, Trail
from dtensor.passes.cuts.pieces import (
    BROADCAST,
    RESHAPE,
    Piece,
    Pieces,
    Source,
    merged,
    operation_of,
    piece_range,
    without,
)
from dtensor.passes.cuts.shards import Shards
from dtensor.passes.ops.attributes import CONSTANT, constant_attribute, integer, integers, shape_of
from dtensor.passes.ops.rule import element_bytes
from dtensor.passes.ops.table import opdef

REDUCE, TRANSPOSE = "stablehlo.reduce", "stablehlo.transpose"
MOVES = frozenset((RESHAPE, TRANSPOSE))
_DEEPEST = 100  # operations one behind the other
_NEAREST = 20  # values that are looked at for a slice among them
_FARTHEST = 200  # and for all slices that are read

Fuse = Callable[[ir.Operation, int], Value]


@dataclass(frozen=True, slots=True)
class Wanted:
    """In which size a value is asked for along one dimension.

    Attributes:
        dim: the dimension.
        place: where the value's first element is to be; it may be negative.
        size: elements of the dimension.
        before: what is made stands before this operation.
        scope: number of its block.
    """

    dim: int
    place: int
    size: int
    before: ir.Operation
    scope: int


@dataclass(frozen=True, slots=True)
class Cut:
    """A value that was sliced.

    Attributes:
        place: the value, and the dimension.
        size: of that dimension.
        start: where the slice began.
    """

    place: tuple[Value, int]
    size: int
    start: int


class Aligner:
    """Makes operations in one function.

    Attributes:
        pieces: what values consist of.
        shards: tell how much longer values may become.
        made: what was made, in order.
        fuse: replaces a cut by what it reads of.
    """

    def __init__(self, pieces: Pieces, fuse: Fuse, shards: Shards) -> None:
        self.made: list[ir.Operation] = []
        self.pieces = pieces
        self.shards = shards
        self.fuse = fuse
        self._values: dict[tuple[Source, int, int], Value] = {}
        self._aligned: dict[tuple[Value, int, int, int, int], Value | None] = {}

    def value(self, source: Source, dim: int, before: ir.Operation, scope: int) -> Value:
        """A source with its cuts applied; they are fused along their own dimensions in turn."""
        if not source.cuts:
            return source.value
        key = (source, dim, scope)
        found = self._values.get(key)
        if found is None:
            inner = Source(source.value, source.cuts[:-1])
            value = self.value(inner, dim, before, scope)
            cut = source.cuts[-1]
            make = Trail(ir.InsertionPoint(before), cut.location, self.made)
            op = operation_of(without(make, cut, value, dim))
            found = self._values[key] = self.fuse(op, scope)
        return found

    def sliced(self, value: Value, dim: int) -> Cut | None:
        """What was sliced, where a value was computed of a slice along a dimension.

        The nearest such value among the first few that it was computed of.
        """
        seen: set[tuple[Value, int]] = set()
        waiting = [(value, dim)]
        while waiting and len(seen) < _NEAREST:
            value, dim = waiting.pop(0)
            if (value, dim) in seen:
                continue
            seen.add((value, dim))
            pieces = self.pieces.of(value, dim)
            if _is_all(pieces, dim) and pieces[0].source != Source(value):
                waiting.append((pieces[0].source.value, dim))  # cut along other dimensions
                continue
            if [p.source for p in pieces] != [Source(value)]:
                cuts = [
                    Cut((p.source.value, dim), shape_of(p.source.value)[dim], p.start)
                    for p in pieces
                    if not p.fills
                ]
                return max(cuts, key=lambda cut: cut.size, default=None)
            op = maker_of(value)
            read = None if op is None else read_along(op, dim)
            if op is not None and read is not None:
                waiting += [(op.operands[k], d) for k, d in read.items()]
        return None

    def cheapest_place(self, value: Value, asked: Wanted) -> int:
        """Where a value's first element stands if little is moved: where it is wanted, or sliced.

        Where as much is moved, it is computed where less of what it is computed of is: others may
        read the same. What was computed at a place before is there.
        """
        dim, size, wanted = asked.dim, asked.size, asked.place
        # By where slices begin, what is sliced from there on.
        moved: dict[int, set[tuple[Value, int]]] = {}
        waiting, seen = [(value, dim)], set[tuple[Value, int]]()
        while waiting:
            at = waiting.pop()
            if at in seen:
                continue
            seen.add(at)
            if len(seen) > _FARTHEST:
                return wanted
            pieces = self.pieces.of(*at)
            if [p.source for p in pieces] != [Source(at[0])]:
                first, source = pieces[0], pieces[0].source.value
                if len(pieces) != 1 or first.fills or shape_of(source)[at[1]] != size:
                    return wanted
                moved.setdefault(first.start, set()).add((source, at[1]))
                continue
            op = maker_of(at[0])
            read = None if op is None else read_along(op, at[1])
            if op is None or read is None:
                return wanted
            waiting += [(op.operands[k], d) for k, d in read.items()]
        places = {start: sum(_row_bytes(*row) for row in rows) for start, rows in moved.items()}

        def rows_moved(place: int) -> tuple[float, float]:
            is_there = self._aligned.get((value, dim, place, size, asked.scope)) is not None
            read = 0.0 if is_there else sum(abs(s - place) * row for s, row in places.items())
            return read + abs(place - wanted) * _row_bytes(value, dim), read

        return min((wanted, *sorted(places)), key=rows_moved)

    def aligned(self, value: Value, wanted: Wanted, depth: int = 0) -> Value | None:
        """A value of another size that has the elements of `value` at a place.

        Args:
            value: the value.
            wanted: the size and the place.
            depth: how many operations ask for it one behind the other.

        Returns:
            None if it would have to be made of values of other sizes. Elements beyond those of
            `value` may be anything.
        """
        key = (value, wanted.dim, wanted.place, wanted.size, wanted.scope)
        if key not in self._aligned:
            self._aligned[key] = self._align(value, wanted, depth)
        return self._aligned[key]

    def _align(self, value: Value, wanted: Wanted, depth: int) -> Value | None:
        if shape_of(value)[wanted.dim] == wanted.size and wanted.place == 0:
            return value
        pieces = self.pieces.of(value, wanted.dim)
        if [p.source for p in pieces] != [Source(value)]:
            return self._of_pieces(pieces, wanted, depth)
        op = maker_of(value)
        if op is None or depth > _DEEPEST:
            return None
        if op.name == CONSTANT:
            return self._constant(op, wanted)
        if op.block != wanted.before.block:
            return None
        if op.name == SPLICE and integer(op.attributes[DIM]) == wanted.dim:
            return None
        read = read_along(op, wanted.dim)
        return None if read is None else self._computed(op, read, wanted, depth)

    def _computed(
        self, op: ir.Operation, read: dict[int, int], wanted: Wanted, depth: int
    ) -> Value | None:
        operands = list(op.operands)
        for k, dim in read.items():
            long = self.aligned(operands[k], replace(wanted, dim=dim), depth + 1)
            if long is None:
                return None
            operands[k] = long
        return Builder(wanted.before, self.made).like(op, operands, wanted.dim, wanted.size)

    def _of_pieces(self, pieces: tuple[Piece, ...], wanted: Wanted, depth: int) -> Value | None:
        """Stretches of values that are as long as is asked for, and short ones between them."""
        dim, place, size, before = wanted.dim, wanted.place, wanted.size, wanted.before
        main = max(pieces, key=lambda p: 0 if p.fills else p.count, default=None)
        if main is None or main.fills:
            return None
        if shape_of(main.source.value)[dim] != size:
            return self._cut_elsewhere(main, wanted, depth) if len(pieces) == 1 else None
        count = sum(p.count for p in pieces)
        stretches = piece_range(pieces, -place, size - place)
        if not stretches:
            return None
        head, tail = max(0, place), max(0, size - place - count)
        shift = self._shift(pieces, main, place)
        if abs(shift) > self.shards.reach(size, main.count, (main.source.value, dim)):
            return None
        around = [*_ring(main.source, -shift, head, size), *stretches]
        around += _ring(main.source, size - tail - shift, tail, size)
        rows = merged(around)
        sources = list(dict.fromkeys([main.source, *(p.source for p in rows)]))
        operands = [self.value(source, dim, before, wanted.scope) for source in sources]
        first = rows[0]
        is_whole = not first.fills and first.count == shape_of(first.source.value)[dim]
        if len(rows) == 1 and is_whole:
            return operands[sources.index(first.source)]
        numbers = [(sources.index(p.source), 0 if p.fills else p.start, p.count) for p in rows]
        made: Value = splice(
            operands, dim, numbers, loc=before.location, ip=ir.InsertionPoint(before)
        )
        self.made.append(operation_of(made))
        return made

    def _cut_elsewhere(self, piece: Piece, wanted: Wanted, depth: int) -> Value | None:
        """What was cut along other dimensions only, of a value of the size that is asked for."""
        source = piece.source
        inner = replace(wanted, place=wanted.place - piece.start)
        long = self.aligned(source.value, inner, depth + 1)
        if long is None:
            return None
        return self.value(Source(long, source.cuts), wanted.dim, wanted.before, wanted.scope)

    def _shift(self, pieces: tuple[Piece, ...], main: Piece, place: int) -> int:
        """By how much the longest piece moves: what stands around the others moves with it."""
        for piece in pieces:
            if piece is main:
                break
            place += piece.count
        return place - main.start

    def _constant(self, op: ir.Operation, wanted: Wanted) -> Value | None:
        attribute = constant_attribute(op)
        if attribute is None or not attribute.is_splat:
            return None
        made = Builder(wanted.before, self.made).like(op, [], wanted.dim, wanted.size)
        type_ = ir.RankedTensorType(made.type)
        splat = ir.DenseElementsAttr.get_splat(type_, attribute.get_splat_value())
        operation_of(made).attributes["value"] = splat
        return made


def _is_all(pieces: Sequence[Piece], dim: int) -> bool:
    """Whether pieces are all that a value has along a dimension."""
    first = pieces[0] if len(pieces) == 1 else None
    if first is None or first.fills:
        return False
    return first.start == 0 and first.count == shape_of(first.source.value)[dim]


def read_along(op: ir.Operation, dim: int) -> dict[int, int] | None:
    """What an operation reads, to compute each element along a dimension of its result by itself.

    Returns:
        By operand the dimension that is read so; nothing of those whose elements serve for all.
        None if elements are not computed by themselves there.
    """
    shape, sizes = shape_of(op.results[0]), shape_of(op.operands[0]) if len(op.operands) else []
    if op.name == BROADCAST:
        dims = integers(op.attributes["broadcast_dimensions"])
        is_given = dim in dims and sizes[dims.index(dim)] != 1
        return {0: dims.index(dim)} if is_given else {}
    if op.name == REDUCE and len(op.operands) == 2:
        reduced = integers(op.attributes["dimensions"])
        return {0: [d for d in range(len(sizes)) if d not in reduced][dim]}
    if op.name == TRANSPOSE:
        return {0: integers(op.attributes["permutation"])[dim]}
    if op.name == RESHAPE:
        before = math.prod(shape[:dim])
        same = [d for d, n in enumerate(sizes) if n == shape[dim]]
        return next(({0: d} for d in same if math.prod(sizes[:d]) == before), None)
    if not opdef(op.name).resizes:
        return None
    return {k: dim for k, value in enumerate(op.operands) if shape_of(value)}


def _row_bytes(value: Value, dim: int) -> float:
    """What one element along a dimension is."""
    type_ = ir.RankedTensorType(value.type)
    size = math.prod(n for d, n in enumerate(type_.shape) if d != dim)
    return size * element_bytes(str(type_.element_type))


def _ring(source: Source, start: int, count: int, size: int) -> Iterator[Piece]:
    """`count` elements of a source from `start` on, counted round it."""
    start %= size
    while count > 0:
        taken = min(count, size - start)
        yield Piece(source, start, taken)
        start, count = 0, count - taken
