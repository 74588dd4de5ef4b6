"""What is sent alike, in one message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect import names
from dtensor.dialect.mlir import ir
from dtensor.passes.base import Pass, PassState
from dtensor.passes.collectives.order import behind, first_reader, is_before, move
from dtensor.passes.collectives.reader import (
    SMALL_BYTES,
    CollectiveOp,
    CollectiveOps,
    as_they_stand,
)
from dtensor.passes.ops.attributes import element_of, size_bytes
from dtensor.passes.ops.elements import joins, moved_as
from dtensor.passes.program import Scope

_COMBINED = (
    names.ALL_REDUCE,
    names.ALL_GATHER,
    names.REDUCE_SCATTER,
    names.ALL_TO_ALL,
    names.COLLECTIVE_PERMUTE,
)
_MOST_LATE = 8  # that come too late for the first before others are not looked at

_Group = list[CollectiveOp]
_Key = tuple[object, ...]


@dataclass(frozen=True)
class CombineCollectivesPass(Pass):
    """Sends small arrays in one message: those that go the same way over the same axes.

    A message takes long to begin, and what is small is soon put together: the rows that are read of
    five tables are sent in one all_to_all. Where the first of them is read before the last is
    there, what the last is computed of moves in front, if it can. No byte more is sent. Runs behind
    dtensor-report-cost, which tells of each array where it comes from and why it is sent.
    """

    name: ClassVar[str] = "dtensor-combine-collectives"
    needs_mesh: ClassVar[bool] = True

    bytes: int = SMALL_BYTES  # how many such a message has, at most

    def run(self, module: ir.Module, state: PassState) -> None:
        report = state.cost_report
        if report is not None:
            small = [c for c in report.collectives if c.bytes < 2 * self.bytes]
            if len({(c.kind, c.mesh_axes) for c in small}) == len(small):
                return
        combine(CollectiveOps(module, state.meshes), dict.fromkeys(_COMBINED, self.bytes))
        state.forget_ir()


def combine(work: CollectiveOps, limits: Mapping[str, int], moves: bool = True) -> None:
    """Combine collectives of one block that do the same, over the same axes, into one.

    It stands where the last does, or in front of what first reads a result.

    Args:
        work: the collectives of the module.
        limits: by the name of those to combine the most bytes that one of them may have.
        moves: whether what a later one sends may move to where the first is read.
    """
    scopes: dict[Scope, dict[_Key, _Group]] = {}
    for item in work.items:
        if not item.is_alive or item.name not in limits:
            continue
        may_join = item.name == names.ALL_REDUCE or joins(element_of(item.op.operands[0]))
        if may_join and _sent_bytes(item) <= limits[item.name]:
            scopes.setdefault(item.scope, {}).setdefault(_does(item), []).append(item)
    for groups in scopes.values():
        for group in groups.values():
            left = as_they_stand(group)
            while len(left) > 1:
                left = _combine_first(work, left, limits[left[0].name], moves)


def _does(item: CollectiveOp) -> _Key:
    """What a collective does with each operand."""
    element = element_of(item.op.operands[0])
    element = element if item.reduction else moved_as(element)
    return (item.name, element, *_attributes(item.op).items())


def _attributes(op: ir.Operation) -> dict[str, ir.Attribute]:
    return {name: op.attributes[name] for name in op.attributes}


def _sent_bytes(item: CollectiveOp) -> int:
    values = item.op.results if item.name == names.ALL_GATHER else item.op.operands
    return int(sum(map(size_bytes, values)))


def _combine_first(work: CollectiveOps, group: _Group, limit_bytes: int, moves: bool) -> _Group:
    """Combine those with the first of a group that may be; the others."""
    joined, left = group[:1], _Group()
    moved, late = list[ir.Operation](), set(group[0].op.results)
    total, reader = _sent_bytes(group[0]), first_reader(group[0].op.results)
    for number, item in enumerate(group[1:], 1):
        ready: list[ir.Operation] | None = []
        if reader is not None and not is_before(item.op, reader):
            if not moves or len(left) >= _MOST_LATE:
                left += group[number:]
                break
            ready = behind(item.op.operands, reader, late)
        late.update(item.op.results)
        size = _sent_bytes(item)
        if ready is None or total + size > limit_bytes:
            left.append(item)
            continue
        joined.append(item)
        moved += [op for op in ready if op not in moved]
        total += size
        sooner = first_reader(item.op.results)
        if sooner is not None and is_before(sooner, reader):
            reader = sooner
    if len(joined) > 1:
        last = joined[-1].op
        _combine(work, joined, moved, last if reader is None or is_before(last, reader) else reader)
    return [item for item in left if item.is_alive]


def _combine(
    work: CollectiveOps, group: _Group, moved: Sequence[ir.Operation], before: ir.Operation
) -> None:
    """One collective for several, in front of an operation, behind those that move there."""
    last = group[-1]
    made = ir.Operation.create(
        last.name,
        results=[value.type for item in group for value in item.op.results],
        operands=[value for item in group for value in item.op.operands],
        attributes=_attributes(last.op),
        loc=last.op.location,
        ip=ir.InsertionPoint(last.op),
    )
    work.add(made, last.scope)
    move([*moved, made], before)
    results = list(made.results)
    for item in group:
        count = len(item.op.results)
        work.replace(item, results[:count])
        del results[:count]
