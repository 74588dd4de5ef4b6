"""What is computed of slices, computed in the size of what was sliced.

`x[2:] + x[:-2]` has two rows less than `x`, and no axis that divides `x` divides it. Whoever puts
it into an array as long as `x` asks for it in that size, at its place: then the slices are rolls of
`x`, and what stands around the elements that matter is chosen away by who asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from dtensor.dialect.build import splice
from dtensor.dialect.mlir import ir, maker_of
from dtensor.dialect.names import DIM, SPLICE
from dtensor.passes.cuts.pieces import (
    Piece,
    Pieces,
    Source,
    Value,
    merged,
    operation_of,
    piece_range,
    without,
)
from dtensor.passes.ops.attributes import CONSTANT, constant_attribute, integer, integers, shape_of
from dtensor.passes.ops.table import opdef

BROADCAST = "stablehlo.broadcast_in_dim"
_DEEPEST = 100  # operations one behind the other

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


class Aligner:
    """Makes operations in one function.

    Attributes:
        pieces: what values consist of.
        made: what was made, in order.
    """

    def __init__(self, pieces: Pieces, fuse: Fuse) -> None:
        self.made: list[ir.Operation] = []
        self.pieces = pieces
        self._fuse = fuse
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
            op = without(source.cuts[-1], value, dim, before)
            self.made.append(op)
            found = self._values[key] = self._fuse(op, scope)
        return found

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
            return self._of_pieces(pieces, wanted)
        op = maker_of(value)
        if op is None or depth > _DEEPEST:
            return None
        if op.name == CONSTANT:
            return self._constant(op, wanted)
        if op.block != wanted.before.block or not opdef(op.name).resizes:
            return None
        if op.name == BROADCAST:
            return self._broadcast(op, wanted)
        if op.name == SPLICE and integer(op.attributes[DIM]) == wanted.dim:
            return None
        return self._elementwise(op, wanted, depth)

    def _elementwise(self, op: ir.Operation, wanted: Wanted, depth: int) -> Value | None:
        operands = []
        for operand in op.operands:
            if shape_of(operand):
                long = self.aligned(operand, wanted, depth + 1)
                if long is None:
                    return None
                operand = long
            operands.append(operand)
        return self._like(op, operands, wanted)

    def _of_pieces(self, pieces: tuple[Piece, ...], wanted: Wanted) -> Value | None:
        """Stretches of values that are as long as is asked for, and short ones between them."""
        dim, place, size, before = wanted.dim, wanted.place, wanted.size, wanted.before
        main = max(pieces, key=lambda p: 0 if p.fills else p.count, default=None)
        if main is None or main.fills or shape_of(main.source.value)[dim] != size:
            return None
        count = sum(p.count for p in pieces)
        stretches = piece_range(pieces, -place, size - place)
        if not stretches:
            return None
        head, tail = max(0, place), max(0, size - place - count)
        shift = self._shift(pieces, main, place)
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
        made = self._like(op, [], wanted)
        type_ = ir.RankedTensorType(made.type)
        splat = ir.DenseElementsAttr.get_splat(type_, attribute.get_splat_value())
        operation_of(made).attributes["value"] = splat
        return made

    def _broadcast(self, op: ir.Operation, wanted: Wanted) -> Value | None:
        """A broadcast to another size, if the dimension is new or repeats one element."""
        dims = integers(op.attributes["broadcast_dimensions"])
        if wanted.dim in dims and shape_of(op.operands[0])[dims.index(wanted.dim)] != 1:
            return None
        return self._like(op, list(op.operands), wanted)

    def _like(self, op: ir.Operation, operands: list[Any], wanted: Wanted) -> Value:
        """The op on other operands, its result of another size."""
        copy = op.clone(ip=ir.InsertionPoint(wanted.before)).operation
        for k, operand in enumerate(operands):
            copy.operands[k] = operand
        type_ = ir.RankedTensorType(op.results[0].type)
        sizes = list(type_.shape)
        sizes[wanted.dim] = wanted.size
        result: Value = copy.results[0]
        result.set_type(ir.RankedTensorType.get(sizes, type_.element_type, loc=op.location))
        self.made.append(copy)
        return result


def _ring(source: Source, start: int, count: int, size: int) -> Iterator[Piece]:
    """`count` elements of a source from `start` on, counted round it."""
    start %= size
    while count > 0:
        taken = min(count, size - start)
        yield Piece(source, start, taken)
        start, count = 0, count - taken
