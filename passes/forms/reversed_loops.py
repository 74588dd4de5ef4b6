"""Loops over reversed rows: `jnp.flip(lax.scan(f, c, jnp.flip(x))[1])`.

Every reversal of a split dimension moves all of it. A loop that reads and writes each of its arrays
from the other end does the same in the same order, of arrays that are not reversed. What is
computed of each row by itself, on the way to the loop and from there to a reversal, is computed of
rows that are not reversed either.

Where one loop reads what another wrote, as the gradient of a loop does, to reverse one of them may
cost more reversals, and to reverse all less. So each is tried by itself, and with all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from dtensor.dialect.mlir import Value, ir, is_read, maker_of, operation_of, ops_of
from dtensor.passes.builder import Builder
from dtensor.passes.forms.reversed_trips import WalkedArrays
from dtensor.passes.forms.reversed_values import (
    Leaves,
    ReversedValues,
    bytes_of,
    is_plain,
    reversed_dims,
    rows_read,
)
from dtensor.passes.ops.attributes import shape_of, size_bytes
from dtensor.passes.program import WHILE
from dtensor.passes.rewriting.names import REVERSE
from dtensor.passes.rewriting.rewriting import Rewriting
from dtensor.passes.rewriting.shards import At

_MOST_VALUES = 64  # values around loops
_MOST_LOOPS = 6  # that are reversed together


def replace_loop(loop: ir.Operation, function: Rewriting) -> None:
    """Reverse a loop, and those that it shares rows with, if less is reversed then."""
    if REVERSE not in function.ops.names or not any(map(is_read, loop.results)):
        return
    first = WalkedArrays.of(loop, function)
    if first is None or not _is_split(first, function):
        return
    alone = _Group([first], function)
    if not alone.reversals and not alone.values.met:
        return  # another one of its group is beside a reversal, if any is
    best = max((alone, _joined(alone, function)), key=lambda group: group.saved)
    if best.saved > 0:
        best.replace()


def _is_split(loop: WalkedArrays, function: Rewriting) -> bool:
    """Whether rows are split that a loop reads or writes, or that they are computed of."""
    queue = dict.fromkeys([*loop.arrays, *loop.results])
    left = list(queue)
    while left and len(queue) < _MOST_VALUES:
        value, dim = left.pop()
        if function.shards.nearly((value, dim)) > 1:
            return True
        op = maker_of(value)
        found: list[At] = []
        if op is not None and op.name == WHILE:
            other = WalkedArrays.of(op, function)
            found = other.arrays if other is not None and (value, dim) in other.results else []
        elif op is not None and dim in reversed_dims(op):
            found = [(op.operands[0], dim)]
        elif op is not None:
            found = [(op.operands[k], d) for k, d in (rows_read(op, dim) or {}).items()]
        left += [at for at in found if at not in queue]
        queue |= dict.fromkeys(found)
    return False


def _joined(group: _Group, function: Rewriting) -> _Group:
    """The loops that share rows with those of a group, or with others that do."""
    tried = {group.loops[0].loop.results[0]}
    while True:
        others = [loop for loop in group.beside if loop.results[0] not in tried]
        tried.update(loop.results[0] for loop in others)
        found = [each for loop in others if (each := WalkedArrays.of(loop, function)) is not None]
        found = [each for each in found if group.touches(each)]
        if not found or len(group.loops) + len(found) > _MOST_LOOPS:
            return group
        group = _Group([*group.loops, *found], function)


@dataclass
class _Group:
    """Loops that are reversed together.

    Attributes:
        loops: the loops.
        function: where they stand.
        values: what they read, and reversals read of them, in the other order.
        reversals: those of what they wrote, or was computed of that, by what they give.
        beside: other loops that read what these write, or write what these read.
        left: what must be reversed for the loops, and for what stands for the reversals.
        kept: what they wrote that something needs as it was.
    """

    loops: list[WalkedArrays]
    function: Rewriting
    reversals: dict[Value, int] = field(default_factory=dict)
    beside: list[ir.Operation] = field(default_factory=list)
    left: Leaves = field(default_factory=dict)
    kept: Leaves = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.block = self.loops[0].loop.block
        results = [at for each in self.loops for at in each.results]
        self.values = ReversedValues(self.function, dict.fromkeys(results))
        self._around: dict[At, None] = dict.fromkeys(results)
        self._look_ahead()
        self._look_back()
        for at in [at for each in self.loops for at in each.arrays]:
            self.left |= self.values.leaves(*at)
        for value, dim in list(self.reversals.items()):
            left = self.left | self.values.leaves(operation_of(value).operands[0], dim)
            if bytes_of(left) - bytes_of(self.left) < size_bytes(value):
                self.left = left
            else:
                del self.reversals[value]
        self._gone = {use for each in self.loops for use in each.uses()}
        self._gone |= {(operation_of(value), 0) for value in self.reversals}
        self._read = {value for value, _ in self.left}
        self._idle: dict[Value, None] = {}
        self.kept = {at: None for at in results if self._is_needed(at[0])}

    @cached_property
    def saved(self) -> float:
        """How many bytes fewer are reversed."""
        met = [value for value in self.values.met if not self._is_needed(value)]
        before = sum(size_bytes(value) for value in dict.fromkeys([*self.reversals, *met]))
        return before - bytes_of(self.left | self.kept)

    def touches(self, other: WalkedArrays) -> bool:
        """Whether a loop reads or writes rows that these do, or that are computed of such."""
        return any(at in self._around for at in (*other.arrays, *other.results))

    def _look_ahead(self) -> None:
        """Find what is computed of the rows that the loops wrote."""
        queue = list(self._around)
        for value, dim in queue:
            for use in value.uses:
                op = use.owner.operation
                if op.block != self.block or op.name == WHILE:
                    self._note_loop(op)
                elif dim in reversed_dims(op):
                    self.reversals[op.results[0]] = dim
                elif is_plain(op) and len(queue) < _MOST_VALUES:
                    dims = range(len(shape_of(op.results[0])))
                    reads = [(rows_read(op, d) or {}).get(use.operand_number) for d in dims]
                    queue += self._new([(op.results[0], d) for d in dims if reads[d] == dim])

    def _look_back(self) -> None:
        """Find what the rows that the loops read are computed of."""
        queue = self._new([at for each in self.loops for at in each.arrays])
        for value, dim in queue:
            op = maker_of(value)
            if op is None or op.block != self.block or len(queue) > _MOST_VALUES:
                continue
            if op.name == WHILE:
                self._note_loop(op)
            elif dim not in reversed_dims(op):
                read = rows_read(op, dim) or {}
                queue += self._new([(op.operands[k], d) for k, d in read.items()])

    def _new(self, places: Sequence[At]) -> list[At]:
        """Those of the places that were not around the loops yet, and are now."""
        found = [at for at in dict.fromkeys(places) if at not in self._around]
        self._around |= dict.fromkeys(found)
        return found

    def _note_loop(self, op: ir.Operation) -> None:
        """Take notice of a loop beside these, or of one that an operation stands in."""
        while op.block != self.block:
            op = op.block.owner.operation
        if op.name == WHILE and op not in (*self.beside, *(each.loop for each in self.loops)):
            self.beside.append(op)

    def _is_needed(self, value: Value) -> bool:
        """Whether anything needs a value as it is, once all is replaced."""
        left: dict[Value, None] = {value: None}
        queue = [value]
        for each in queue:
            if each in self._read:
                return True
            for use in each.uses:
                op = use.owner.operation
                if (op, use.operand_number) in self._gone:
                    continue
                if op.block != self.block or not is_plain(op):
                    return True
                if op.results[0] not in left:
                    left[op.results[0]] = None
                    queue.append(op.results[0])
        self._idle |= left
        return False

    def replace(self) -> None:
        """Let reversed loops stand for these, and what is not reversed for what was."""
        function, found = self.function, dict[Value, Value]()
        loops = {each.loop.results[0]: each for each in self.loops}
        for op in ops_of(self.block):
            value = op.results[0] if len(op.results) else None
            if value in loops:
                self._reverse(loops[value], found)
            elif value in self.reversals:
                found[value] = self.values.unreversed(value, self.reversals[value], op)
        for old, new in found.items():
            function.replace_value(old, new)
        function.drop(*[operation_of(value) for value in self._idle if maker_of(value) is not None])
        function.drop(*[each.loop for each in self.loops])

    def _reverse(self, each: WalkedArrays, found: dict[Value, Value]) -> None:
        """Write a loop that is reversed, and note what stands for the results of the other."""
        loop, values = each.loop, self.values
        copy = each.reversed({at: values.of(*at, loop) for at in each.arrays}, self.function)
        make = Builder(loop, self.function.made)
        for k, (old, new) in enumerate(zip(loop.results, copy.results, strict=True)):
            if k in each.written:
                values.given[old, each.written[k]] = new
            if (old, each.written.get(k)) in self.kept:
                found[old] = values.reversed(make, new, each.written[k])
            elif k in each.trips.fixed:
                found[old] = loop.operands[k]
            elif k not in each.written:
                found[old] = new
