"""What shards send to the same neighbours, in one message.

A stencil that reads the corners of a tile shifts it along one dimension, and what came of that
along another: each of these sends an edge most of which the others send too. Each value is sent
once, as much of it as all need: the corners go along. A step of several fields sends an edge of
each, and of their products: small ones go together, and products are computed of what arrives.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from dtensor.dialect.mlir import Value, ir, operation_of
from dtensor.dialect.names import AXES, SHARD_PERMUTE, SOURCES
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
from dtensor.passes.collectives.order import behind, move
from dtensor.passes.collectives.reader import (
    SMALL_BYTES,
    CollectiveOp,
    CollectiveOps,
    as_they_stand,
)
from dtensor.passes.creation import with_sizes
from dtensor.passes.ops.attributes import element_of, itemsize, shape_of
from dtensor.passes.ops.elements import joins, moved_as
from dtensor.passes.program import Scope

_NEAR = 32  # messages behind the first that may join it

_Joined = list[tuple[CollectiveOp, Piece]]


def share_edges(work: CollectiveOps) -> None:
    """Send in one message what shards send to the same devices, if it is small or the same."""
    groups: dict[tuple[Scope, object], list[CollectiveOp]] = {}
    for item in work.items:
        if item.is_alive and item.name == SHARD_PERMUTE:
            element = element_of(item.op.results[0])
            kind = moved_as(element) if joins(element) else item
            alike = (item.mesh, tuple(item.axes), item.op.attributes[SOURCES], kind)
            groups.setdefault((item.scope, alike), []).append(item)
    for scope in dict.fromkeys(scope for scope, _ in groups):
        work.erase_unread(scope)
    for group in groups.values():
        left = as_they_stand(group)
        while len(left) > 1:
            left = _share_first(work, left)


def _share_first(work: CollectiveOps, group: Sequence[CollectiveOp]) -> list[CollectiveOp]:
    """Let those join the first of a group that may; the others."""
    first, near, left = group[0], group[1 : _NEAR + 1], list(group[_NEAR + 1 :])
    reader = Reader(work, first, _offered(work, [first, *near]))
    joined: _Joined = [(first, reader.message(first))]
    sent = set(first.op.results)
    boxes, moved, alone = joined[0][1].sent(), list[ir.Operation](), list[CollectiveOp]()
    for item in near:
        piece = reader.message(item)
        found = piece.sent()
        is_shared = any(v == w and volume(common(a, b)) for v, a in found for w, b in boxes)
        ready = behind([value for value, _ in found], first.op, sent)
        is_alike = ready is not None and (is_shared or not found or _is_small(first, boxes + found))
        if ready is None or not is_alike:
            alone.append(item)
            continue
        joined.append((item, piece))
        sent.update(item.op.results)
        boxes += found
        moved += [op for op in ready if op not in moved]
    boxes = _merged(boxes)
    old = sum(math.prod(shape_of(item.op.operands[0])) for item, _ in joined)
    if len(joined) > 1 and _volume(boxes) > old:
        alone += [item for item, _ in joined[1:]]
    elif len(joined) > 1:
        move(moved, first.op)
        received = _received(work, joined, boxes)
        for item, piece in joined:
            work.replace(item, [piece.rebuilt(Builder(item.op), received)])
    return as_they_stand([*alone, *left])


def _is_small(item: CollectiveOp, boxes: Sequence[Sent]) -> bool:
    """Whether boxes of the element type of a message are soon put together to one."""
    return _volume(_merged(boxes)) * itemsize(item.op.operands[0]) <= SMALL_BYTES


def _offered(work: CollectiveOps, group: Sequence[CollectiveOp]) -> dict[Value, list[Box]]:
    """What messages bring if nothing is computed of it, by value."""
    reader, offered = Reader(work, group[0], {}), dict[Value, list[Box]]()
    for item in group:
        for value, box in reader.message(item).sent():
            offered.setdefault(value, []).append(box)
    return offered


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
    elements = [element_of(each) for each in cuts]
    if len(set(elements)) > 1:
        cuts = [make.bitcast(each, moved_as(elements[0])) for each in cuts]
    ranks = {len(shape) for shape in shapes}
    dims = range(len(shapes[0]) if len(ranks) == 1 else 0)
    dim = next((d for d in dims if len({with_sizes(s, d) for s in shapes}) == 1), -1)
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
        found.append((value, box, make.bitcast(part, element_of(value))))
        place += count
    return found
