"""What shards send to the same neighbours, in one message.

A stencil that reads the corners of a tile shifts it along one dimension, and what came of that
along another: each of these sends an edge most of which the others send too. Each value is sent
once, as much of it as all need: the corners go along. A step of several fields sends an edge of
each, and of their products: small ones go together, and products are computed of what arrives.
Where a tensor that goes round ends inside of a shard, what that one sends stands further inside:
each shard sends in one place what the shard it sends to needs there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from dtensor.dialect.mlir import Value, ir, operation_of
from dtensor.dialect.names import AXES, AXIS_INDEX, READERS, SHARD_PERMUTE, SOURCES
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
from dtensor.passes.ops.attributes import element_of, integers, itemsize, shape_of
from dtensor.passes.ops.elements import joins, moved_as
from dtensor.passes.program import Scope

_NEAR_MESSAGES = 32  # messages behind the first that may join it

_Joined = list[tuple[CollectiveOp, Piece]]
_Readers = frozenset[int] | None  # the shards that need something; None, all
_Slot = list[tuple[Sent, _Readers]]  # boxes of one shape in one place, each for other shards


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
    first, near, left = group[0], group[1 : _NEAR_MESSAGES + 1], list(group[_NEAR_MESSAGES + 1 :])
    reader = Reader(work, first, _offered(work, [first, *near]))
    joined: _Joined = [(first, reader.message(first))]
    sent = set(first.op.results)
    boxes, moved, alone = joined[0][1].sent(), list[ir.Operation](), list[CollectiveOp]()
    for item in near:
        piece = reader.message(item)
        found = piece.sent()
        is_shared = any(v == w and volume(common(a, b)) for v, a in found for w, b in boxes)
        ready = behind([value for value, _ in found], first.op, sent)
        is_near = is_shared or not found or _goes_beside(item, piece, joined)
        if ready is None or not (is_near or _is_small(first, boxes + found)):
            alone.append(item)
            continue
        joined.append((item, piece))
        sent.update(item.op.results)
        boxes += found
        moved += [op for op in ready if op not in moved]
    slots = _slots(joined)
    old = sum(math.prod(shape_of(item.op.operands[0])) for item, _ in joined)
    if len(joined) > 1 and sum(volume(slot[0][0][1]) for slot in slots) > old:
        alone += [item for item, _ in joined[1:]]
    elif len(joined) > 1:
        move(moved, first.op)
        received = _received(work, joined, slots)
        for item, piece in joined:
            there = [each for each, readers in received if _reach(readers, _readers(item))]
            work.replace(item, [piece.rebuilt(Builder(item.op), there)])
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


def _readers(item: CollectiveOp) -> _Readers:
    """The shards that need what a permute brings."""
    attributes = item.op.attributes
    return frozenset(integers(attributes[READERS])) if READERS in attributes else None


def _goes_beside(item: CollectiveOp, piece: Piece, joined: _Joined) -> bool:
    """Whether others need what a message brings than what one of those joined does."""
    mine, counts = _readers(item), [[n for _, n in box] for _, box in piece.sent()]
    return mine is not None and any(
        theirs is not None
        and not mine & theirs
        and counts == [[n for _, n in box] for _, box in other.sent()]
        for theirs, other in [(_readers(each), other) for each, other in joined]
    )


def _slots(joined: _Joined) -> list[_Slot]:
    """What is sent: boxes of one shape that different shards need are in one place."""
    by_readers: dict[_Readers, list[Sent]] = {}
    for item, piece in joined:
        by_readers.setdefault(_readers(item), []).extend(piece.sent())
    slots = list[_Slot]()
    for readers, boxes in by_readers.items():
        for sent in _merged(boxes):
            slot = next((slot for slot in slots if _has_room(slot, sent, readers)), None)
            if slot is None:
                slots.append([(sent, readers)])
            else:
                slot.append((sent, readers))
    alone: list[_Slot] = [
        [(sent, None)] for sent in _merged([slot[0][0] for slot in slots if len(slot) == 1])
    ]
    return alone + [slot for slot in slots if len(slot) > 1]


def _has_room(slot: _Slot, sent: Sent, readers: _Readers) -> bool:
    """Whether none of the shards that need a box need anything else of a slot, of its shape."""
    value, box = sent
    return readers is not None and all(
        others is not None
        and not others & readers
        and [n for _, n in box] == [n for _, n in other]
        and element_of(value) == element_of(of)
        for (of, other), others in slot
    )


def _chosen(work: CollectiveOps, make: Builder, item: CollectiveOp, slot: _Slot) -> Value:
    """What a shard sends in the place of a slot: the box that the shard it sends to needs."""
    sources = integers(item.op.attributes[SOURCES])
    (sent, _), *others = sorted(slot, key=lambda each: -len(each[1] or ()))
    value = cut(make, *sent)
    if not others:
        return value
    index = make.value(
        AXIS_INDEX, [], make.tensor_type((), "i32"), {AXES: item.op.attributes[AXES]}
    )
    work.add(operation_of(index), item.scope)
    for sent, readers in others:
        senders = [make.compare("EQ", index, sources[reader]) for reader in sorted(readers or ())]
        value = make.select(make.combined("or", senders), cut(make, *sent), value)
    return value


def _reach(there: _Readers, wanted: _Readers) -> bool:
    """Whether what comes to some shards comes to all that need it."""
    return there is None or (wanted is not None and wanted <= there)


def _received(
    work: CollectiveOps, joined: _Joined, slots: Sequence[_Slot]
) -> list[tuple[Received, _Readers]]:
    """Boxes that are sent in one message, in front of the first of those it stands for."""
    if not slots:
        return []
    first = joined[0][0]
    make = Builder(first.op)
    make.location = ir.Location.fused([item.op.location for item, _ in joined])
    cuts = [_chosen(work, make, first, slot) for slot in slots]
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
    found, place = list[tuple[Received, _Readers]](), 0
    for slot, each, shape in zip(slots, cuts, shapes, strict=True):
        count = make.shape_of(each)[dim]
        part = make.reshape(make.cut(message, dim, place, count), shape)
        for (value, box), readers in slot:
            found.append(((value, box, make.bitcast(part, element_of(value))), readers))
        place += count
    return found
