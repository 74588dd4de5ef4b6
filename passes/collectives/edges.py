"""What shards send to the same neighbours, in one message.

A stencil that reads the corners of a tile shifts it along one dimension, and what came of that
along another: each of these sends an edge most of which the others send too. Each value is sent
once, as much of it as all need: the corners go along. A step of several fields sends an edge of
each, and of their products: small ones go together, and products are computed of what arrives.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from dtensor.dialect.mlir import Value, ir, maker_of, operation_of, ops_of
from dtensor.dialect.names import AXES, AXIS_INDEX, SHARD_PERMUTE, SOURCES
from dtensor.passes.builder import Builder
from dtensor.passes.collectives.messages import (
    Box,
    Piece,
    Reader,
    Received,
    Sent,
    common,
    cut,
    volume,
)
from dtensor.passes.collectives.reader import CollectiveOp, CollectiveOps
from dtensor.passes.creation import with_sizes
from dtensor.passes.ops.attributes import itemsize, shape_of
from dtensor.passes.ops.table import opdef

_MOST_MOVED = 64  # operations that go in front of the first message
_SMALL_BYTES = 1 << 17  # of a message: to begin it takes as long as to put it together of parts

_Joined = list[tuple[CollectiveOp, Piece]]


def share_edges(work: CollectiveOps) -> None:
    """Send in one message what is sent several times of one value to the same devices."""
    groups: dict[object, list[CollectiveOp]] = {}
    for item in work.items:
        if item.is_alive and item.name == SHARD_PERMUTE:
            element = ir.RankedTensorType(item.op.results[0].type).element_type
            key = (item.scope, item.mesh, tuple(item.axes), item.op.attributes[SOURCES], element)
            groups.setdefault(key, []).append(item)
    for group in groups.values():
        while len(group) > 1:
            group = _share_first(work, group)


def _share_first(work: CollectiveOps, group: Sequence[CollectiveOp]) -> list[CollectiveOp]:
    """Let those join the first of a group that may; the others."""
    order = {op: k for k, op in enumerate(ops_of(group[0].scope.block))}
    first, *others = sorted(group, key=lambda item: order[item.op])
    reader = Reader(work, first, _offered(work, group))
    joined: _Joined = [(first, reader.message(first))]
    boxes, left, moved = list(joined[0][1].sent()), list[CollectiveOp](), set[ir.Operation]()
    bytes_each = itemsize(first.op.operands[0])
    for item in others:
        piece = reader.message(item)
        found = list(piece.sent())
        is_shared = any(v == w and volume(common(a, b)) for v, a in found for w, b in boxes)
        is_small = _volume(_merged(boxes + found)) * bytes_each <= _SMALL_BYTES
        before = {other.op for other, _ in joined} | {item.op}
        late = _behind([value for value, _ in found], order, order[first.op], before)
        if late is None or not (is_shared or is_small or not found):
            left.append(item)
            continue
        joined.append((item, piece))
        boxes += found
        moved |= late
    boxes = _merged(boxes)
    old = sum(math.prod(shape_of(item.op.operands[0])) for item, _ in joined)
    if len(joined) > 1 and _volume(boxes) <= old:
        for op in sorted(moved, key=lambda op: order[op]):
            op.move_before(first.op)
        received = _received(work, joined, boxes)
        for item, piece in joined:
            work.replace(item, [piece.rebuilt(Builder(item.op), received)])
    return left


def _offered(work: CollectiveOps, group: Sequence[CollectiveOp]) -> dict[Value, list[Box]]:
    """What messages bring if nothing is computed of it, by value."""
    reader, offered = Reader(work, group[0], {}), dict[Value, list[Box]]()
    for item in group:
        for value, box in reader.message(item).sent():
            offered.setdefault(value, []).append(box)
    return offered


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


def _volume(boxes: Iterable[Sent]) -> int:
    return sum(volume(box) for _, box in boxes)


def _around(one: Box, other: Box) -> Box:
    """The least box that holds two others."""
    pairs = zip(one, other, strict=True)
    ends = [(min(a, b), max(a + n, b + m)) for (a, n), (b, m) in pairs]
    return tuple([(start, end - start) for start, end in ends])


def _merged(boxes: Sequence[Sent]) -> list[Sent]:
    """What has all of the boxes: two of one value are one where that is no more."""
    found: list[Sent] = []
    for value, box in boxes:
        near = _beside(found, value, box)
        while near is not None:
            box = _around(box, found.pop(near)[1])
            near = _beside(found, value, box)
        found.append((value, box))
    return found


def _beside(found: Sequence[Sent], value: Value, box: Box) -> int | None:
    """Which of the boxes found is sent with another one for no more than both."""
    for k, (other, near) in enumerate(found):
        if other == value and volume(_around(near, box)) <= volume(near) + volume(box):
            return k
    return None


def _received(work: CollectiveOps, joined: _Joined, boxes: Sequence[Sent]) -> list[Received]:
    """Boxes that are sent in one message, in front of the first of those it stands for."""
    if not boxes:
        return []
    first = joined[0][0]
    make = Builder(first.op)
    make.location = ir.Location.fused([item.op.location for item, _ in joined])
    cuts = [cut(make, *sent) for sent in boxes]
    shapes = [make.shape_of(each) for each in cuts]
    dim = next(
        (d for d in range(len(shapes[0])) if len({with_sizes(s, d) for s in shapes}) == 1), -1
    )
    if dim < 0:
        dim, cuts = 0, [make.reshape(each, [math.prod(make.shape_of(each))]) for each in cuts]
    message = make.joined(cuts, dim)
    attributes = {name: first.op.attributes[name] for name in (AXES, SOURCES)}
    message = make.value(SHARD_PERMUTE, [message], message.type, attributes)
    work.add(operation_of(message), first.scope)
    found, place = list[Received](), 0
    for (value, box), each, shape in zip(boxes, cuts, shapes, strict=True):
        count = make.shape_of(each)[dim]
        part = make.reshape(make.cut(message, dim, place, count), shape)
        found.append((value, box, part))
        place += count
    return found
