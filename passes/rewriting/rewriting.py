"""The function at hand while one pattern after another is rewritten in it.

A match holds operations and values, of which another rewrite may erase some: to look at them then
is the end of the process. So no rewrite erases anything. It says what stands for what, and between
two matches, when none is held, what nobody reads any more is erased, here alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from dtensor.dialect.mlir import Value, every, ir, is_read, maker_of, operation_of, terminator
from dtensor.passes.builder import Builder
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import Operations
from dtensor.passes.rewriting.names import (
    BROADCAST,
    CUTS,
    DOT,
    INDEXED,
    REDUCE,
    RESHAPE,
    REVERSE,
    SELECT_AND_SCATTER,
    SORT,
    TOP_K,
    TRANSPOSE,
    WINDOWED,
)
from dtensor.passes.rewriting.shards import Shards

# What is erased with the last that reads it, beside what is computed element by element.
_ERASED = CUTS | WINDOWED | INDEXED
_ERASED |= {RESHAPE, TRANSPOSE, REVERSE, BROADCAST, REDUCE, DOT, SELECT_AND_SCATTER, SORT, TOP_K}


def _goes_unread(name: str) -> bool:
    """Whether operations of this name are erased once nobody reads them."""
    return name in _ERASED or opdef(name).resizes


@dataclass
class Rewriting:
    """What a pattern may look at and write.

    Attributes:
        function: the function.
        shards: tell which dimensions layouts split.
        note: is given each operation that was created, and is read.
        made: takes what is created.
        has_changed: whether anything was rewritten, so that operations may be left that nobody
            reads.
    """

    function: ir.Operation
    _ops: Operations
    shards: Shards
    note: Callable[[ir.Operation], None]
    made: list[ir.Operation] = field(default_factory=list)
    has_changed: bool = False
    # Of `each`, by a result: an operation is another key once it reads something else.
    _left: dict[Value, ir.Operation] = field(default_factory=dict)
    _dropped: list[ir.Operation] = field(default_factory=list)
    _has_erased: bool = False

    @property
    def ops(self) -> Operations:
        """What stands in the function; what was created since is not among it until one is erased.

        Whoever holds it must erase nothing meanwhile.
        """
        if self._has_erased:
            self._ops, self._has_erased = Operations(self.function), False
        return self._ops

    def named(self, *names: str) -> list[ir.Operation]:
        """The operations of these names, while nothing is erased."""
        return self.ops.named(*names)

    def each(self, *names: str, is_reverse: bool = False) -> Iterator[ir.Operation]:
        """One after another, those that give something and are still there when it is their turn.

        Whoever asks for the next must hold no operation or value: what nobody reads is erased.
        """
        ops = [op for op in self.named(*names) if len(op.results)]
        self._left = {op.results[0]: op for op in (ops if is_reverse else reversed(ops))}
        while self._left:
            yield self._left.popitem()[1]
            self.clean()

    def replace(self, op: ir.Operation, *values: Value | None) -> None:
        """Let values stand for the results of an operation; None leaves one as it is."""
        for result, value in zip(op.results, values, strict=True):
            if value is not None:
                self.replace_value(result, value)

    def replace_value(self, old: Value, new: Value) -> None:
        """Let a value stand for one result of an operation."""
        self.shards.stands_for(new, old)
        old.replace_all_uses_with(new)
        self.drop(operation_of(old))

    def drop(self, *ops: ir.Operation) -> None:
        """Operations that need not stay, whatever they are, if nobody reads them."""
        self._dropped += ops
        self.has_changed = True

    def end(self, block: ir.Block, values: Sequence[Value]) -> None:
        """Let a block of a loop or branch give these values, in place of those that it gives."""
        last = terminator(block)
        Builder(last, self.made).create(last.name, values, [])
        last.erase()

    def clean(self, everywhere: bool = False) -> None:
        """Erase what nobody reads of what was replaced or created; note what was created and stays.

        With it goes what only that has read; or, with `everywhere`, all that nobody reads.
        """
        if not (self.made or self._dropped or everywhere):
            return
        made, names = dict.fromkeys(self.made), self.ops.names if everywhere else ()
        idle = dict.fromkeys([*self.named(*filter(_goes_unread, names)), *self._dropped, *made])
        left = dict(idle)
        while left:
            op, _ = left.popitem()
            if not op.results or any(map(is_read, op.results)):
                continue
            gone = every(op)
            read = [maker_of(value) for each in gone for value in each.operands]
            left.update(
                (maker, None)
                for maker in read
                if maker and (maker in idle or _goes_unread(maker.name))
            )
            for each in gone:
                self.shards.forget(each)
                for held in (idle, left, made):
                    held.pop(each, None)
                if len(each.results):
                    self._left.pop(each.results[0], None)
            op.erase()
            self._has_erased = True
        for op in made:
            self.note(op)
        self.has_changed |= bool(made)
        self.made.clear()
        self._dropped.clear()
