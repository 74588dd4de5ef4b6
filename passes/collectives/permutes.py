"""Permutes of shards one behind the other, as one.

`x[::-1, ::-1]` and `jnp.fft.fftshift(x)` change the places of shards along one dimension, and then
along another. Each shard may go straight to where the last of them brings it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

from dtensor.dialect.attributes import axes_attr
from dtensor.dialect.axes import AxisRef
from dtensor.dialect.mlir import ir, maker_of, operation_of, users
from dtensor.dialect.names import AXES, SHARD_PERMUTE, SOURCES
from dtensor.passes.builder import Builder
from dtensor.passes.collectives.reader import CollectiveOp, CollectiveOps
from dtensor.passes.creation import integers_attr
from dtensor.passes.ops.attributes import CONSTANT, integers
from dtensor.passes.ops.table import opdef

_Place = dict[AxisRef, int]  # of a device along axes
_DEEPEST = 16  # operations between two permutes


def join_permutes(work: CollectiveOps) -> None:
    """Let one permute do what two do, the second of what nothing else reads of the first.

    Between them each device may compute something of that alone.
    """
    for item in list(work.items):
        last: CollectiveOp | None = item
        while last is not None and last.is_alive and last.name == SHARD_PERMUTE:
            last = _joined(work, last)


def _joined(work: CollectiveOps, last: CollectiveOp) -> CollectiveOp | None:
    """The permute that stands for one and for that before it; None if there is none to join."""
    first = _before(work, last)
    found = None if first is None else _composed(first, last)
    if first is None or found is None:
        return None
    axes, sources = found
    make, (value,) = Builder(first.op), first.op.operands
    make.location = ir.Location.fused([first.op.location, last.op.location])
    joined = None
    if sources != list(range(len(sources))):
        attributes = {AXES: axes_attr(first.mesh, axes), SOURCES: integers_attr(sources)}
        value = make.value(SHARD_PERMUTE, [value], value.type, attributes)
        joined = work.add(operation_of(value), first.scope)
    work.replace(last, list(last.op.operands))
    work.replace(first, [value])
    return joined


def _before(work: CollectiveOps, last: CollectiveOp) -> CollectiveOp | None:
    """The permute of the same block of which alone a permute sends something; None if none is."""
    first: CollectiveOp | None = None
    between, waiting = list[ir.Operation](), list(last.op.operands)
    while waiting:
        value = waiting.pop()
        op, found = maker_of(value), work.producer(value)
        if op is None or len(between) > _DEEPEST:
            return None
        if found is not None:
            if found.name != SHARD_PERMUTE or found.scope is not last.scope:
                return None
            if first not in (None, found):
                return None
            first = found
        elif op not in between and op.name != CONSTANT:
            if not _is_alike(op):
                return None
            between.append(op)
            waiting += list(op.operands)
    is_joined = first is not None and _is_read_by(first.op, between, last.op)
    has_zeros = -1 in _sources(last) and not all(opdef(op.name).moves_only for op in between)
    return first if is_joined and not has_zeros else None


def _is_alike(op: ir.Operation) -> bool:
    """Whether every device computes the same of equal operands."""
    known = opdef(op.name)
    return known.fuses and not known.varies and not len(op.regions)


def _is_read_by(first: ir.Operation, between: Sequence[ir.Operation], last: ir.Operation) -> bool:
    """Whether only these read what is sent at first and what is made of it."""
    readers = [user for op in (first, *between) for user in users(op.results[0])]
    return all(reader == last or reader in between for reader in readers)


def _composed(
    first: CollectiveOp, last: CollectiveOp
) -> tuple[tuple[AxisRef, ...], list[int]] | None:
    """The axes and sources of both together; None if they share a part of an axis."""
    axes = tuple(dict.fromkeys((*first.axes, *last.axes)))
    pairs = combinations(axes, 2)
    if first.mesh != last.mesh or any(one.overlaps(other) for one, other in pairs):
        return None
    found = []
    for digits in product(*[range(axis.size) for axis in axes]):
        at: _Place | None = dict(zip(axes, digits, strict=True))
        for item in (last, first):
            at = None if at is None else _sender(item, at)
        found.append(-1 if at is None else _number(at, axes))
    return axes, found


def _sender(item: CollectiveOp, at: _Place) -> _Place | None:
    """Where the device is that sends to one; None if none does."""
    number = _sources(item)[_number(at, item.axes)]
    digits: _Place = {}
    for axis in reversed(item.axes):
        number, digits[axis] = divmod(number, axis.size)
    return None if number < 0 else at | digits


def _sources(item: CollectiveOp) -> list[int]:
    return integers(item.op.attributes[SOURCES])


def _number(at: _Place, axes: Sequence[AxisRef]) -> int:
    """The number of a device along axes, the first major."""
    number = 0
    for axis in axes:
        number = number * axis.size + at[axis]
    return number
