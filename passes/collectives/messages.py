"""What a message brings: elements of some values, put together again where they arrive.

What shards send is made of slices, put side by side, chosen by index or computed element by
element; what is received is the same of what is received of each. So a message need only bring what
is at the bottom of that, and nothing of it that another message brings to the same devices.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dtensor.dialect.attributes import mesh_and_axes
from dtensor.dialect.mlir import Value, ir, maker_of
from dtensor.dialect.names import AXES, AXIS_INDEX, SOURCES
from dtensor.passes.builder import Builder
from dtensor.passes.collectives.reader import CollectiveOp, CollectiveOps
from dtensor.passes.ops.attributes import integer, integers, shape_of, slice_numbers, splat_number
from dtensor.passes.ops.known import zero_of_zeros
from dtensor.passes.ops.table import opdef

_DEEPEST = 16  # operations one behind the other

Box = tuple[tuple[int, int], ...]  # per dimension the first element, and how many
Sent = tuple[Value, Box]
Received = tuple[Value, Box, Value]


def volume(box: Box) -> int:
    """How many elements are in a box."""
    return math.prod(count for _, count in box)


def common(one: Box, other: Box) -> Box:
    """The elements of two boxes that are the same."""
    pairs = zip(one, other, strict=True)
    starts = [(max(a, b), min(a + n, b + m)) for (a, n), (b, m) in pairs]
    return tuple([(start, max(0, end - start)) for start, end in starts])


def cut(make: Builder, value: Value, box: Box) -> Value:
    """The elements of a value that are in a box."""
    if all(count == n for (_, count), n in zip(box, make.shape_of(value), strict=True)):
        return value
    return make.slice(value, [start for start, _ in box], [start + n for start, n in box])


@dataclass(frozen=True, slots=True)
class Piece:
    """Some elements of a value.

    Attributes:
        value: the value; of a choice, the predicate.
        box: which of them.
        parts: what they are put together of: side by side, or chosen, of a true predicate first;
            or what they are computed of.
        dim: along which the parts stand side by side; -1 of a choice.
        op: what computes them of the parts, element by element; None if they are put together.
        is_known: whether the device that they are sent to has the same.
    """

    value: Value
    box: Box
    parts: tuple[Piece, ...] = ()
    dim: int = -1
    op: ir.Operation | None = None
    is_known: bool = False

    def sent(self) -> list[Sent]:
        """What has to be sent for it."""
        found, seen, waiting = list[Sent](), set[int](), [self]
        while waiting:
            piece = waiting.pop()
            if id(piece) not in seen and not piece.parts and not piece.is_known:
                found.append((piece.value, piece.box))
            elif id(piece) not in seen:
                waiting += reversed(piece.parts)
            seen.add(id(piece))
        return found

    def rebuilt(
        self, make: Builder, received: Sequence[Received], made: dict[int, Value] | None = None
    ) -> Value:
        """What a device gets of it, of what it received; `made` has the pieces that are there."""
        made = {} if made is None else made
        if id(self) not in made:
            parts = [part.rebuilt(make, received, made) for part in self.parts]
            made[id(self)] = self._made(make, received, parts)
        return made[id(self)]

    def _made(self, make: Builder, received: Sequence[Received], parts: list[Value]) -> Value:
        if self.is_known:
            return cut(make, self.value, self.box)
        if not parts:
            return self._found(make, received)
        if self.op is not None:
            shape = tuple([count for _, count in self.box])
            made: Value = make.again(self.op, parts, [shape]).results[0]
            return made
        if self.dim >= 0:
            return make.joined(parts, self.dim)
        is_one = not make.shape_of(self.value)
        chosen = self.value if is_one else cut(make, self.value, self.box)
        return make.select(chosen, parts[0], parts[1])

    def _found(self, make: Builder, received: Sequence[Received]) -> Value:
        boxes = ((box, part) for value, box, part in received if value == self.value)
        box, part = next((box, part) for box, part in boxes if common(box, self.box) == self.box)
        inner = zip(self.box, box, strict=True)
        return cut(make, part, tuple([(s - start, n) for (s, n), (start, _) in inner]))


class Reader:
    """Reads what messages to the same devices consist of.

    Args:
        work: the collectives of the module.
        item: one of the messages.
        offered: what messages bring in any case, by value: what is computed of that alone need not
            be sent.
    """

    def __init__(
        self, work: CollectiveOps, item: CollectiveOp, offered: Mapping[Value, Sequence[Box]]
    ) -> None:
        self.meshes, self.axes, self.offered = work.meshes, item.axes, offered
        self._sends_all = -1 not in integers(item.op.attributes[SOURCES])
        self._known: dict[Value, bool] = {}
        self._read: dict[Sent, Piece] = {}

    def message(self, item: CollectiveOp) -> Piece:
        """All that one of the messages sends."""
        value = item.op.operands[0]
        return self.read(value, tuple([(0, n) for n in shape_of(value)]))

    def read(self, value: Value, box: Box, depth: int = 0) -> Piece:
        """Elements of a value, as pieces of those that it was put together of."""
        if (value, box) not in self._read:
            self._read[value, box] = self._read_at(value, box, depth)
        return self._read[value, box]

    def _read_at(self, value: Value, box: Box, depth: int) -> Piece:
        if self._sends_all and self.is_known(value):
            return Piece(value, box, is_known=True)
        op = maker_of(value)
        name = "" if op is None or depth == _DEEPEST else op.name
        if op is not None and name == "stablehlo.slice":
            starts, _, strides = slice_numbers(op)
            if set(strides) == {1}:
                inner = [(s + start, n) for s, (start, n) in zip(starts, box, strict=True)]
                return self.read(op.operands[0], tuple(inner), depth + 1)
        if op is not None and name == "stablehlo.concatenate":
            dim = integer(op.attributes["dimension"])
            parts = tuple(self._beside(op, dim, box, depth))
            return parts[0] if len(parts) == 1 else Piece(value, box, parts, dim)
        if op is not None and name == "stablehlo.select" and self.is_known(op.operands[0]):
            chosen = [self.read(side, box, depth + 1) for side in list(op.operands)[1:]]
            return Piece(op.operands[0], box, tuple(chosen))
        parts = self._computed_of(op, box, depth) if op is not None and name else ()
        return Piece(value, box, parts, op=op if parts else None)

    def _beside(self, op: ir.Operation, dim: int, box: Box, depth: int) -> Iterator[Piece]:
        place, (start, count) = 0, box[dim]
        for value in op.operands:
            size = shape_of(value)[dim]
            first, end = max(start, place), min(start + count, place + size)
            if first < end:
                part = (first - place, end - first)
                yield self.read(value, (*box[:dim], part, *box[dim + 1 :]), depth + 1)
            place += size

    def _computed_of(self, op: ir.Operation, box: Box, depth: int) -> tuple[Piece, ...]:
        """The elements that an operation computes those in a box of; none if not all are offered.

        Where nobody sends, zeros arrive; so an operation must make zeros of them.
        """
        found, shape = opdef(op.name), shape_of(op.results[0])
        is_computed = found.resizes and found.fuses and not found.varies
        if not is_computed or not op.operands or not self.offered:
            return ()
        parts, others = list[Piece](), dict[int, Value]()
        for place, operand in enumerate(op.operands):
            if not self._sends_all and splat_number(operand) is not None:
                others[place] = operand
                part = Piece(operand, box, is_known=True)
            elif shape_of(operand) == shape:
                part = self.read(operand, box, depth + 1)
            else:
                part = Piece(operand, (), is_known=self._sends_all and self.is_known(operand))
            if not all(self._is_offered(*sent) for sent in part.sent()):
                return ()
            parts.append(part)
        return tuple(parts) if self._sends_all or zero_of_zeros(op, others) else ()

    def _is_offered(self, value: Value, box: Box) -> bool:
        boxes = self.offered.get(value, ())
        return any(len(box) == len(each) and common(each, box) == box for each in boxes)

    def is_known(self, value: Value, depth: int = 0) -> bool:
        """Whether devices along the axes are seen to have the same value."""
        if value not in self._known:
            op = maker_of(value)
            self._known[value] = op is not None and depth < _DEEPEST and self._is_made(op, depth)
        return self._known[value]

    def _is_made(self, op: ir.Operation, depth: int) -> bool:
        if op.name == AXIS_INDEX:
            _, axes = mesh_and_axes(op.attributes[AXES], self.meshes)
            return not any(a.overlaps(b) for a in axes for b in self.axes)
        found = opdef(op.name)
        if not (found.moves_only or found.fuses) or found.varies or len(op.regions):
            return False
        return all(self.is_known(operand, depth + 1) for operand in op.operands)
