"""What shards send of one value to the same neighbours, in one message.

A stencil that reads the corners of a tile shifts it along one dimension, and what came of that
along another: each of these sends an edge most of which the others send too. What is sent is made
of slices, put side by side or chosen by index, and what is received is the same of the slices
received. So each value is sent once, as much of it as all need: the corners go along.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dtensor.dialect.attributes import mesh_and_axes
from dtensor.dialect.mlir import Value, ir, maker_of, operation_of, ops_of
from dtensor.dialect.names import AXES, AXIS_INDEX, SHARD_PERMUTE, SOURCES
from dtensor.passes.builder import Builder
from dtensor.passes.collectives.reader import CollectiveOp, CollectiveOps
from dtensor.passes.creation import with_sizes
from dtensor.passes.ops.attributes import integer, integers, shape_of, slice_numbers
from dtensor.passes.ops.table import opdef

_DEEPEST = 16  # operations one behind the other
_MOST_MOVED = 64  # operations that go in front of the first message

Box = tuple[tuple[int, int], ...]  # per dimension the first element, and how many
_Sent = tuple[Value, Box]
_Received = tuple[Value, Box, Value]


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some elements of a value.

    Attributes:
        value: the value; of a choice, the predicate.
        box: which of them.
        parts: what they are put together of: side by side, or chosen, of a true predicate first.
        dim: along which the parts stand side by side; -1 of a choice.
        is_known: whether the device that they are sent to has the same.
    """

    value: Value
    box: Box
    parts: tuple[_Piece, ...] = ()
    dim: int = -1
    is_known: bool = False

    def sent(self) -> Iterator[_Piece]:
        """The pieces without parts that are not known."""
        if self.parts:
            for part in self.parts:
                yield from part.sent()
        elif not self.is_known:
            yield self


class _Reader:
    """Reads what messages over some axes consist of."""

    def __init__(self, work: CollectiveOps, item: CollectiveOp) -> None:
        self.meshes, self.axes = work.meshes, item.axes
        self._sends_all = -1 not in integers(item.op.attributes[SOURCES])
        self._known: dict[Value, bool] = {}

    def read(self, value: Value, box: Box, depth: int = 0) -> _Piece:
        """Elements of a value, as pieces of those that it was put together of."""
        if self._sends_all and self.is_known(value):
            return _Piece(value, box, is_known=True)
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
            return parts[0] if len(parts) == 1 else _Piece(value, box, parts, dim)
        if op is not None and name == "stablehlo.select" and self.is_known(op.operands[0]):
            chosen = [self.read(side, box, depth + 1) for side in list(op.operands)[1:]]
            return _Piece(op.operands[0], box, tuple(chosen))
        return _Piece(value, box)

    def _beside(self, op: ir.Operation, dim: int, box: Box, depth: int) -> Iterator[_Piece]:
        place, (start, count) = 0, box[dim]
        for value in op.operands:
            size = shape_of(value)[dim]
            first, end = max(start, place), min(start + count, place + size)
            if first < end:
                part = (first - place, end - first)
                yield self.read(value, (*box[:dim], part, *box[dim + 1 :]), depth + 1)
            place += size

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


def share_edges(work: CollectiveOps) -> None:
    """Send in one message what is sent several times of one value to the same devices."""
    groups: dict[object, list[CollectiveOp]] = {}
    for item in work.items:
        if item.is_alive and item.name == SHARD_PERMUTE:
            element = ir.RankedTensorType(item.op.results[0].type).element_type
            key = (item.scope, item.mesh, tuple(item.axes), item.op.attributes[SOURCES], element)
            groups.setdefault(key, []).append(item)
    for group in groups.values():
        while group:
            group = _share_first(work, group)


def _share_first(work: CollectiveOps, group: Sequence[CollectiveOp]) -> list[CollectiveOp]:
    """Let those join the first of a group that send some of the same; the others."""
    order = {op: k for k, op in enumerate(ops_of(group[0].scope.block))}
    first, *others = sorted(group, key=lambda item: order[item.op])
    reader, left, moved = _Reader(work, first), list[CollectiveOp](), set[ir.Operation]()
    joined = [(first, _read(reader, first))]
    boxes = [(piece.value, piece.box) for piece in joined[0][1].sent()]
    for item in others:
        piece = _read(reader, item)
        found = [(part.value, part.box) for part in piece.sent()]
        is_shared = any(v == w and _volume(_common(a, b)) for v, a in found for w, b in boxes)
        before = {other.op for other, _ in joined} | {item.op}
        late = _behind([value for value, _ in found], order, order[first.op], before)
        if late is None or not (is_shared or not found):
            left.append(item)
            continue
        joined.append((item, piece))
        boxes += found
        moved |= late
    boxes = _merged(boxes)
    old = sum(math.prod(shape_of(item.op.operands[0])) for item, _ in joined)
    if sum(_volume(box) for _, box in boxes) < old:
        for op in sorted(moved, key=lambda op: order[op]):
            op.move_before(first.op)
        received = _received(work, first, boxes)
        for item, piece in joined:
            work.replace(item, [_rebuilt(Builder(item.op), piece, received)])
    return left


def _read(reader: _Reader, item: CollectiveOp) -> _Piece:
    value = item.op.operands[0]
    return reader.read(value, tuple([(0, n) for n in shape_of(value)]))


def _behind(
    values: Sequence[Value], order: dict[ir.Operation, int], place: int, without: set[ir.Operation]
) -> set[ir.Operation] | None:
    """The operations behind a place that values need; None if they cannot go in front of it."""
    found, waiting = set[ir.Operation](), list(values)
    while waiting:
        op = maker_of(waiting.pop())
        if op is None or op in found or order.get(op, -1) < place:
            continue
        is_moved = op.name in (SHARD_PERMUTE, AXIS_INDEX) or opdef(op.name).moves_only
        if op in without or not is_moved or len(found) == _MOST_MOVED:
            return None
        found.add(op)
        waiting += list(op.operands)
    return found


def _volume(box: Box) -> int:
    return math.prod(count for _, count in box)


def _common(one: Box, other: Box) -> Box:
    """The elements of two boxes that are the same."""
    pairs = zip(one, other, strict=True)
    starts = [(max(a, b), min(a + n, b + m)) for (a, n), (b, m) in pairs]
    return tuple([(start, max(0, end - start)) for start, end in starts])


def _around(one: Box, other: Box) -> Box:
    """The least box that holds two others."""
    pairs = zip(one, other, strict=True)
    ends = [(min(a, b), max(a + n, b + m)) for (a, n), (b, m) in pairs]
    return tuple([(start, end - start) for start, end in ends])


def _merged(boxes: Sequence[_Sent]) -> list[_Sent]:
    """What has all of the boxes: two of one value are one where that is no more."""
    found: list[_Sent] = []
    for value, box in boxes:
        near = _beside(found, value, box)
        while near is not None:
            box = _around(box, found.pop(near)[1])
            near = _beside(found, value, box)
        found.append((value, box))
    return found


def _beside(found: Sequence[_Sent], value: Value, box: Box) -> int | None:
    """Which of the boxes found is sent with another one for no more than both."""
    for k, (other, near) in enumerate(found):
        if other == value and _volume(_around(near, box)) <= _volume(near) + _volume(box):
            return k
    return None


def _received(work: CollectiveOps, first: CollectiveOp, boxes: Sequence[_Sent]) -> list[_Received]:
    """Boxes that are sent in one message, in front of the first of those it stands for."""
    if not boxes:
        return []
    make = Builder(first.op)
    cuts = [_cut(make, *sent) for sent in boxes]
    shapes = [make.shape_of(cut) for cut in cuts]
    dim = next(
        (d for d in range(len(shapes[0])) if len({with_sizes(s, d) for s in shapes}) == 1), -1
    )
    if dim < 0:
        dim, cuts = 0, [make.reshape(cut, [math.prod(make.shape_of(cut))]) for cut in cuts]
    message = make.joined(cuts, dim)
    attributes = {name: first.op.attributes[name] for name in (AXES, SOURCES)}
    message = make.value(SHARD_PERMUTE, [message], message.type, attributes)
    work.add(operation_of(message), first.scope)
    found, place = list[_Received](), 0
    for (value, box), cut, shape in zip(boxes, cuts, shapes, strict=True):
        count = make.shape_of(cut)[dim]
        part = make.reshape(make.cut(message, dim, place, count), shape)
        found.append((value, box, part))
        place += count
    return found


def _cut(make: Builder, value: Value, box: Box) -> Value:
    if all(count == n for (_, count), n in zip(box, make.shape_of(value), strict=True)):
        return value
    return make.slice(value, [start for start, _ in box], [start + n for start, n in box])


def _rebuilt(make: Builder, piece: _Piece, received: Sequence[_Received]) -> Value:
    """What a device gets of a piece."""
    if piece.is_known:
        return _cut(make, piece.value, piece.box)
    if not piece.parts:
        for value, box, part in received:
            if value == piece.value and _common(box, piece.box) == piece.box:
                inner = zip(piece.box, box, strict=True)
                return _cut(make, part, tuple([(s - start, n) for (s, n), (start, _) in inner]))
    parts = [_rebuilt(make, part, received) for part in piece.parts]
    if piece.dim >= 0:
        return make.joined(parts, piece.dim)
    is_one = not make.shape_of(piece.value)
    chosen = piece.value if is_one else _cut(make, piece.value, piece.box)
    return make.select(chosen, parts[0], parts[1])
