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
from dtensor.passes.program import Scope

_NEAR = 32  # messages behind the first that may join it
_MOST_MOVED = 64  # operations that go in front of the first message
_SMALL_BYTES = 1 << 17  # of a message: to begin it takes as long as to put it together of parts

_Joined = list[tuple[CollectiveOp, Piece]]


class _Places:
    """Where the operations of a block stand, also those that came since; -1 of what is outside."""

    def __init__(self, block: ir.Block) -> None:
        ops = enumerate(ops_of(block))
        self._of = {result: float(k) for k, op in ops for result in op.results}
        self._taken: dict[Value, float] = {}  # by what stands behind it, the last place in front

    def of(self, op: ir.Operation) -> float:
        """A number that is larger for operations that come later."""
        return self._of.get(op.results[0], -1.0) if len(op.results) else -1.0

    def put(self, ops: Sequence[ir.Operation], before: ir.Operation) -> None:
        """These stand in front of another one now, behind those put there already."""
        end = self.of(before)
        start = self._taken.get(before.results[0], end - 1)
        for k, op in enumerate(ops, 1):
            place = start + (end - start) * k / (len(ops) + 1)
            self._of.update(dict.fromkeys(op.results, place))
            self._taken[before.results[0]] = place


def share_edges(work: CollectiveOps) -> None:
    """Send in one message what shards send to the same devices, if it is small or the same."""
    groups: dict[tuple[Scope, object], list[CollectiveOp]] = {}
    for item in work.items:
        if item.is_alive and item.name == SHARD_PERMUTE:
            element = ir.RankedTensorType(item.op.results[0].type).element_type
            alike = (item.mesh, tuple(item.axes), item.op.attributes[SOURCES], element)
            groups.setdefault((item.scope, alike), []).append(item)
    several = {key: group for key, group in groups.items() if len(group) > 1}
    scopes = dict[Scope, _Places]()
    for scope, _ in several:
        if scope not in scopes:
            work.erase_unread(scope)
            scopes[scope] = _Places(scope.block)
    for (scope, _), group in several.items():
        places = scopes[scope]
        left = [item for item in group if item.is_alive]
        left.sort(key=lambda item: places.of(item.op))
        while len(left) > 1:
            left = _share_first(work, left, places)


def _share_first(
    work: CollectiveOps, group: Sequence[CollectiveOp], places: _Places
) -> list[CollectiveOp]:
    """Let those join the first of a group that may; the others."""
    first, near, left = group[0], group[1 : _NEAR + 1], list(group[_NEAR + 1 :])
    reader = Reader(work, first, _offered(work, [first, *near]))
    joined: _Joined = [(first, reader.message(first))]
    boxes, moved, alone = joined[0][1].sent(), list[ir.Operation](), list[CollectiveOp]()
    for item in near:
        piece = reader.message(item)
        found = piece.sent()
        is_shared = any(v == w and volume(common(a, b)) for v, a in found for w, b in boxes)
        late = _behind([value for value, _ in found], places, [each.op for each, _ in joined], item)
        is_alike = late is not None and (is_shared or not found or _is_small(first, boxes + found))
        if late is None or not is_alike:
            alone.append(item)
            continue
        joined.append((item, piece))
        boxes += found
        moved += [op for op in late if op not in moved]
    boxes = _merged(boxes)
    old = sum(math.prod(shape_of(item.op.operands[0])) for item, _ in joined)
    if len(joined) > 1 and _volume(boxes) > old:
        alone = sorted(
            [*alone, *[item for item, _ in joined[1:]]], key=lambda item: places.of(item.op)
        )
    elif len(joined) > 1:
        moved.sort(key=places.of)
        for op in moved:
            op.move_before(first.op)
        places.put(moved, first.op)
        received = _received(work, joined, boxes, places)
        for item, piece in joined:
            made = list[ir.Operation]()
            rebuilt = piece.rebuilt(Builder(item.op, made), received)
            places.put(made, item.op)
            work.replace(item, [rebuilt])
    return [*alone, *left]


def _is_small(item: CollectiveOp, boxes: Sequence[Sent]) -> bool:
    """Whether boxes of the element type of a message are soon put together to one."""
    return _volume(_merged(boxes)) * itemsize(item.op.operands[0]) <= _SMALL_BYTES


def _offered(work: CollectiveOps, group: Sequence[CollectiveOp]) -> dict[Value, list[Box]]:
    """What messages bring if nothing is computed of it, by value."""
    reader, offered = Reader(work, group[0], {}), dict[Value, list[Box]]()
    for item in group:
        for value, box in reader.message(item).sent():
            offered.setdefault(value, []).append(box)
    return offered


def _behind(
    values: Sequence[Value],
    places: _Places,
    joined: Sequence[ir.Operation],
    item: CollectiveOp,
) -> list[ir.Operation] | None:
    """The operations behind the first of the joined that values need; None if one cannot move."""
    place, found, waiting = places.of(joined[0]), list[ir.Operation](), list(values)
    while waiting:
        op = maker_of(waiting.pop())
        if op is None or op in found or places.of(op) < place:
            continue
        is_moved = op.name in (SHARD_PERMUTE, AXIS_INDEX) or opdef(op.name).moves_only
        if op in joined or op == item.op or not is_moved or len(found) == _MOST_MOVED:
            return None
        found.append(op)
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


def _received(
    work: CollectiveOps, joined: _Joined, boxes: Sequence[Sent], places: _Places
) -> list[Received]:
    """Boxes that are sent in one message, in front of the first of those it stands for."""
    if not boxes:
        return []
    first = joined[0][0]
    made = list[ir.Operation]()
    make = Builder(first.op, made)
    make.location = ir.Location.fused([item.op.location for item, _ in joined])
    cuts = [cut(make, *sent) for sent in boxes]
    shapes = [make.shape_of(each) for each in cuts]
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
        found.append((value, box, part))
        place += count
    places.put(made, first.op)
    return found
