"""Gathered values that are let go and gathered again, where one device would hold too much.

What is gathered for the forward pass and read again in the backward pass takes memory all the time
between. The shard it is gathered of takes a part of it. So it may be gathered twice: each reader
behind the peak reads what is gathered right before the first of them. Which to let go is Belady's
choice for caches: those that are read again last ("A study of replacement algorithms for a
virtual-storage computer", 1966). What is read only behind the peak is gathered later, at no price.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect.mlir import (
    Value,
    block_of,
    ir,
    is_read,
    maker_of,
    operation_of,
    users,
)
from dtensor.dialect.names import ALL_GATHER
from dtensor.passes.base import Pass, PassState
from dtensor.passes.collectives.order import (
    first_reader,
    in_order,
    is_before,
)
from dtensor.passes.cost.units import quantity, seconds_text
from dtensor.passes.creation import Creator
from dtensor.passes.functions import main_function
from dtensor.passes.graph import OpReader
from dtensor.passes.ledger import GATHERED_AGAIN, Ledger
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import BARRIER, RETURNS, WHILE, never_changed_in
from dtensor.passes.reports.buffers import Need
from dtensor.passes.reports.cost import cost_report
from dtensor.passes.reports.kernels import Reordered
from dtensor.passes.reports.peak import need_of

_LONGEST = 8  # operations between the shard and what is read
_ROUNDS = 32


@dataclass(frozen=True)
class GatherAgainPass(Pass):
    """Gathers values again, rather than keep them, where one device would hold too much.

    The compiler runs it with the bytes that are over `CompileOptions.max_bytes_per_device`, or over
    what a device of the machine has; else it changes nothing. Of the gathered values that are alive
    when one device holds most and read after that, those that are read last are gathered again
    right before, until enough memory is free. An optimization_barrier with something that is
    computed after the peak keeps XLA from doing so earlier; XLA for CPU does not hold to barriers,
    so there nothing changes. If that is not enough, what is gathered in front of a loop in which
    the peak is, and which only reads it, is gathered in each turn.
    """

    name: ClassVar[str] = "dtensor-gather-again"

    bytes: int = 0  # how much less one device is to hold; 0: what the compiler found to be over

    def run(self, module: ir.Module, state: PassState) -> None:
        less = self.bytes or state.bytes_to_free
        if not (less and state.runs_as_written):
            return
        function = main_function(module)
        before = _sent(function, state)
        again = _Again(function, state)
        start = again.need.bytes
        for _ in range(_ROUNDS):
            over = again.need.bytes - start + less
            if over <= 0 or not again.free(over):
                break
        if again.count or again.delayed or again.in_loops:
            sent, seconds = (x - y for x, y in zip(_sent(function, state), before, strict=True))
            saved = quantity(start - again.need.bytes, "B")
            state.ledger.add(
                GATHERED_AGAIN,
                f"{again.text()}, so that one device holds {saved} less; that sends "
                f"{quantity(sent, 'B')} more, in {seconds_text(seconds)}",
                bytes=sent,
                seconds=seconds,
                communication=seconds,
            )
            state.forget_ir()


def _sent(function: ir.Operation, state: PassState) -> tuple[float, float]:
    """Bytes that one device sends, and the seconds planned for it."""
    report = cost_report(function, state.meshes, Ledger(), state.cost_model())
    turns = [c.trip_count or 1 for c in report.collectives]
    every = list(zip(report.collectives, turns, strict=True))
    return sum(c.bytes * n for c, n in every), sum(c.seconds * n for c, n in every)


@dataclass(frozen=True)
class _Kept:
    """A value that is gathered before the peak and read after it.

    Attributes:
        value: what is read.
        made: how it is made of a shard: all_gathers, and what changes each element by itself.
        late: the readers after the peak, the first one first; what stands in a region counts as
            what that is a region of.
        is_read_before: whether something reads it before the peak too.
        level: in how many regions the peak stands, from the block of the value on.
    """

    value: Value
    made: list[ir.Operation]
    late: list[ir.Operation]
    is_read_before: bool
    level: int


class _Again:
    """Gathers values of a function again.

    Attributes:
        need: what one device holds.
        count: how many values were gathered again.
        delayed: how many are gathered later.
        in_loops: how many are gathered in each turn of a loop, and not in front of it.
    """

    def __init__(self, function: ir.Operation, state: PassState) -> None:
        self._function, self._state = function, state
        self._types = OpReader()
        self.need = self._read()
        self.count = self.delayed = self.in_loops = 0

    def _read(self) -> Need:
        state = self._state
        return need_of(self._function, state.donated, self._types, state.runs_as_written)

    def text(self) -> str:
        """What was done, in words."""
        counts = (
            (self.count, "are gathered again where they are read next"),
            (self.delayed, "are not gathered before they are read first"),
            (self.in_loops, "are gathered in each turn of the loop that reads them"),
        )
        done = [f"{count} {what}" for count, what in counts if count]
        return f"values: {', '.join(done)}"

    def free(self, over: float) -> bool:
        """Let go of values that are alive at the peak, of so many bytes; whether there was one."""
        at = self.need.at
        if at is None:
            return False
        peak = list(_outwards(at))
        alive = dict.fromkeys(v.of if isinstance(v, Reordered) else v for v, _ in self.need.alive)
        views = dict.fromkeys(view for value in alive for view in _views(value))
        kept = [found for value in views if (found := _kept(value, peak)) is not None]
        if not kept:
            return self._free_in_loops(list(views), peak, over)
        kept.sort(key=lambda each: (each.level, in_order(each.late[0])), reverse=True)
        kept.sort(key=lambda each: each.is_read_before)  # others cost nothing
        for value in [each.value for each in kept]:
            each = _kept(value, peak)  # read anew: a barrier that it passes may be another one now
            assert each is not None, "still read after the peak"
            self.count += each.is_read_before
            self.delayed += not each.is_read_before
            _gather_again(each, peak[each.level])
            over -= self._types.type_info(value.type, None).bytes
            if over <= 0:
                break
        _erase_unread([op for each in kept for op in each.made])
        self.need = self._read()
        return True

    def _free_in_loops(
        self, values: Sequence[Value], peak: Sequence[ir.Operation], over: float
    ) -> bool:
        """Gather values in each turn of the loop that the peak is in, which reads them alone."""
        sunk: list[ir.Operation] = []
        for value in values:
            made, level = _made_of_shard(value), _level(value, peak)
            if not (made and level and peak[level].name == WHILE and over > 0):
                continue
            if _gather_inside(value, made, peak[level]):
                sunk += made
                self.in_loops += 1
                over -= self._types.type_info(value.type, None).bytes
        _erase_unread(sunk)
        self.need = self._read()
        return bool(sunk)


def _outwards(op: ir.Operation) -> Iterator[ir.Operation]:
    """An operation, that whose region it stands in, and so on."""
    while op.name not in ("func.func", "builtin.module"):
        yield op
        parent = op.parent
        assert parent is not None
        op = parent.operation


def _kept(value: Value, peak: Sequence[ir.Operation]) -> _Kept | None:
    """What is gathered before the peak, if it is read after that and can be gathered again."""
    made, level = _made_of_shard(value), _level(value, peak)
    if not made or level is None:
        return None
    late = sorted([r for r in _readers(value) if peak[level].is_before_in_block(r)], key=in_order)
    if not late or late[0].name in RETURNS:
        return None
    if late[0].name != BARRIER and _anchor(late[0], value, peak[level]) is None:
        return None
    every = [reader for view in _views(made[0].results[0]) for reader in _readers(view)]
    is_read_before = any(not peak[level].is_before_in_block(reader) for reader in every)
    return _Kept(value, made, late, is_read_before, level)


def _level(value: Value, peak: Sequence[ir.Operation]) -> int | None:
    """In how many regions the peak stands, from the block of a value on; None if beside it."""
    block = block_of(value)
    return next((i for i, op in enumerate(peak) if op.block == block), None)


def _views(value: Value) -> list[Value]:
    """A value, and what its block makes of it element by element alone."""
    found = [value]
    for view in found:  # grows
        made = [op.results[0] for op in users(view) if _is_view(op, block_of(value))]
        found += [result for result in made if result not in found]
    return found


def _readers(value: Value) -> list[ir.Operation]:
    """What reads a value, other than to make a view; as operations of its block."""
    return [op for op in _readers_in(block_of(value), value) if not _is_view(op, op.block)]


def _readers_in(block: ir.Block, value: Value) -> list[ir.Operation]:
    """What reads a value in a block or in the regions there, as operations of the block."""
    found = [
        next((op for op in _outwards(user) if op.block == block), None) for user in users(value)
    ]
    return [op for op in found if op is not None]


def _is_view(op: ir.Operation, block: ir.Block) -> bool:
    """Whether one of a block moves, or changes, each element of its one operand by itself."""
    definition = opdef(op.name)
    is_cheap = definition.moves_only or (definition.fuses and not definition.costly)
    is_one = len(op.operands) == 1 and len(op.results) == 1 and not len(op.regions)
    return is_cheap and is_one and op.name != BARRIER and op.block == block


def _made_of_shard(value: Value) -> list[ir.Operation]:
    """The operations of its block that make a value, an all_gather first; none without a gather."""
    made, block = list[ir.Operation](), block_of(value)
    while (op := maker_of(value)) is not None and len(made) < _LONGEST:
        if op.block != block or not (op.name == ALL_GATHER or _is_view(op, block)):
            break
        made.append(op)
        value = op.operands[0]
    while made and made[-1].name != ALL_GATHER:
        made.pop()
    return made[::-1]


def _anchor(reader: ir.Operation, value: Value, peak: ir.Operation) -> int | None:
    """Which operand of a reader of a value is computed last, if after the peak."""
    found = None
    for k, operand in enumerate(reader.operands):
        maker = maker_of(operand)
        is_late = (
            maker is not None
            and operand != value
            and maker.block == peak.block
            and not maker.is_before_in_block(peak)
            and isinstance(operand.type, ir.RankedTensorType)
        )
        if is_late and (found is None or is_before(operation_of(reader.operands[found]), maker)):
            found = k
    return found


def _gather_again(kept: _Kept, peak: ir.Operation) -> None:
    """Let the readers after the peak read what is gathered right before the first of them."""
    first, shard = kept.late[0], kept.made[0].operands[0]
    if first.name == BARRIER:
        _gather_behind(kept, first)
        return
    anchor = _anchor(first, kept.value, peak)
    assert anchor is not None, "found with one"
    shard, first.operands[anchor] = _barrier(first, [shard, first.operands[anchor]]).results
    _read_instead(kept.value, _made_again(kept.made, shard, first), kept.late)


def _gather_behind(kept: _Kept, barrier: ir.Operation) -> None:
    """Let the shard pass a barrier; what reads the value behind it reads what is gathered there."""
    shard = kept.made[0].operands[0]
    is_it = [operand == kept.value for operand in barrier.operands]
    passed = [shard if it else operand for it, operand in zip(is_it, barrier.operands, strict=True)]
    moved = _barrier(barrier, passed)
    for old, new, it in zip(barrier.results, moved.results, is_it, strict=True):
        first = first_reader([old])
        if first is not None:
            old.replace_all_uses_with(_made_again(kept.made, new, first) if it else new)
    barrier.erase()


def _barrier(before: ir.Operation, values: Sequence[Value]) -> ir.Operation:
    types = [value.type for value in values]
    where = ir.InsertionPoint(before)
    return ir.Operation.create(BARRIER, types, list(values), loc=before.location, ip=where)


def _made_again(made: Sequence[ir.Operation], shard: Value, before: ir.Operation) -> Value:
    """The value made of a shard once more."""
    for op in made:
        shard = Creator(before).again(op, [shard]).results[0]
    return shard


def _erase_unread(ops: Sequence[ir.Operation]) -> None:
    """Erase those that nothing reads; each comes behind what it reads."""
    left = {op.results[0]: op for op in ops}  # each once
    for result, op in reversed(left.items()):
        if not is_read(result):
            op.erase()


def _read_instead(value: Value, other: Value, readers: Sequence[ir.Operation]) -> None:
    """Let these operations, and what stands in their regions, read another value."""
    for use in list(value.uses):
        user = use.owner.operation
        if any(op in readers for op in _outwards(user)):
            user.operands[use.operand_number] = other


def _gather_inside(value: Value, made: Sequence[ir.Operation], loop: ir.Operation) -> bool:
    """Let a loop that reads a value, and does not change it, gather it in each turn; if it does."""
    slots = [k for k, operand in enumerate(loop.operands) if operand == value]
    if not never_changed_in(loop).issuperset(slots):
        return False
    shard = made[0].operands[0]
    for k in slots:
        loop.operands[k] = shard
        loop.results[k].replace_all_uses_with(value)
        loop.results[k].set_type(shard.type)
    is_read = False
    for block in [region.blocks[0] for region in loop.regions]:
        passed = [block.arguments[k] for k in slots]
        for argument in passed:
            argument.set_type(shard.type)
        for source, read in [(shard, value), *zip(passed, passed, strict=True)]:
            readers = [op for op in _readers_in(block, read) if op.name not in RETURNS]
            if readers:
                first = min(readers, key=in_order)
                _read_instead(read, _made_again(made, source, first), readers)
                is_read = True
    return is_read
