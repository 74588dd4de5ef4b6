"""What XLA runs of a block, one kernel after the other: its fusions, and their order.

Values inside a fusion are never written to memory. A value is inside if all that reads it can be
fused with it, and computing it again in each of several readers costs little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dtensor.dialect.mlir import ir
from dtensor.passes.graph import OpReader
from dtensor.passes.ops.opdef import OpDef
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import BARRIER, CONTROL, WHILE, captured, terminator

# Several become one, whose results are there before its operands go; up to so many bytes.
_ALL_REDUCE = "stablehlo.all_reduce"
_COMBINED_BYTES = 30 << 20
# The same elements in the same place.
_ALIASES = ("stablehlo.reshape", BARRIER)

Value = ir.Value[Any]


@dataclass(eq=False, slots=True)
class Kernel:
    """What runs at once: an operation with what is fused into it, or combined collectives.

    Attributes:
        operations: the operations whose results it writes.
        reads: the values in memory that it reads, each once.
        writes: the values that it writes to memory.
        overwrites: per written value those read ones in whose memory it may be written.
    """

    operations: list[ir.Operation]
    reads: dict[Value, None] = field(default_factory=dict)
    writes: list[Value] = field(default_factory=list)
    overwrites: list[tuple[Value, ...]] = field(default_factory=list)


class Kernels:
    """The kernels of a block, in the order in which they run.

    Attributes:
        arguments: the arguments of the block.
        ordered: the kernels: what is ready first runs first, as XLA for CPU does it.
        results: per value that the block passes on the one in memory that it is; None if it is a
            constant.
    """

    def __init__(self, block: ir.Block, types: OpReader) -> None:
        self._types = types
        self._operations = [view.operation for view in block.operations][:-1]
        self.arguments: list[Value] = list(block.arguments)
        self._made_by: dict[Value, int] = {
            v: i for i, op in enumerate(self._operations) for v in op.results
        }
        self._definitions: list[OpDef] = [opdef(op.name) for op in self._operations]
        passed = list(terminator(block).operands)
        self._fused = self._find_fused(passed)
        self._sources: dict[Value, tuple[Value, ...]] = {}
        made = self._make()
        self.results = [self._root(value) for value in passed]
        self.ordered = _in_order(made, self.arguments)

    def _find_fused(self, passed: Sequence[Value]) -> set[Value]:
        """The values that are never written to memory."""
        readers: dict[Value, list[int]] = {}
        for i, op in enumerate(self._operations):
            inside = captured(op, self._made_by) if op.name in CONTROL else ()
            for value in dict.fromkeys([*op.operands, *inside]):
                readers.setdefault(value, []).append(i)
        kept, fused = set(passed), set[Value]()
        homes: dict[Value, set[int]] = {}  # the operations that a value is computed for
        for i in reversed(range(len(self._operations))):
            op, definition = self._operations[i], self._definitions[i]
            alias = op.name in _ALIASES
            fuses = definition.fuses and not len(op.regions)
            for k, value in enumerate(op.results):
                by = readers.get(value, ())
                near: set[int] = set()
                for reader in by:
                    near |= self._home(reader, homes)
                if alias:
                    homes[value] = near
                    if value in kept:
                        kept.add(op.operands[k])  # what it is in other words is written
                elif value in kept:
                    continue
                elif (definition.rematerialisable and not op.operands) or (
                    fuses
                    and (len(near) <= 1 or not definition.costly)
                    and self._all_fuse(by, readers)
                ):
                    fused.add(value)
                    homes[value] = near if len(near) <= 2 else {-1, -2}
        return fused

    def _home(self, i: int, homes: dict[Value, set[int]]) -> set[int]:
        """For which operations one computes: itself, or those that it is fused into."""
        results = self._operations[i].results
        if len(results) == 1 and results[0] in homes:
            return homes[results[0]]
        return {i}

    def _all_fuse(self, by: Sequence[int], readers: dict[Value, list[int]]) -> bool:
        """Whether operations can be fused with what they read, looking through other words."""
        for i in by:
            op = self._operations[i]
            if op.name in _ALIASES:
                if not all(self._all_fuse(readers.get(r, ()), readers) for r in op.results):
                    return False
            elif not self._definitions[i].fuses:
                return False
        return True

    def _root(self, value: Value) -> Value | None:
        """The value in memory that this one is in other words; None of a constant."""
        while value in self._made_by:
            i = self._made_by[value]
            op = self._operations[i]
            if op.name not in _ALIASES:
                return None if value in self._fused else value
            value = op.operands[ir.OpResult(value).result_number]
        return value

    def _read(self, value: Value) -> tuple[Value, ...]:
        """The values in memory that one is computed from where it is read."""
        found = self._sources.get(value)
        if found is None:
            i = self._made_by.get(value)
            if i is None:
                found = (value,)
            else:
                op = self._operations[i]
                if op.name in _ALIASES:
                    found = self._read(op.operands[ir.OpResult(value).result_number])
                elif value in self._fused:
                    found = self._read_all(op.operands)
                else:
                    found = (value,)
            self._sources[value] = found
        return found

    def _read_all(self, values: Sequence[Value]) -> tuple[Value, ...]:
        found: dict[Value, None] = {}
        for value in values:
            found.update(dict.fromkeys(self._read(value)))
        return tuple(found)

    def _make(self) -> list[Kernel]:
        kernels: list[Kernel] = []
        groups = _Combiner(self._types)
        known = {**self._made_by, **dict.fromkeys(self.arguments, -1)}
        for i, op in enumerate(self._operations):
            results = [value for value in op.results if value not in self._fused]
            if op.name in _ALIASES or (op.results and not results):
                self._read_all(op.operands)  # near first: no deep recursion later
                for value in op.results:
                    self._read(value)
                continue
            inside = captured(op, known) if op.name in CONTROL else ()
            reads = self._read_all([*op.operands, *inside])
            kernel = groups.join(op, reads) if op.name == _ALL_REDUCE else None
            if kernel is None:
                kernel = Kernel([op])
                kernels.append(kernel)
                if op.name == _ALL_REDUCE:
                    groups.open(kernel)
            else:
                kernel.operations.append(op)
            kernel.reads.update(dict.fromkeys(reads))
            kernel.writes += results
            kernel.overwrites += [self._overwrites(i, value) for value in results]
            groups.note(op, reads, results)
        return kernels

    def _overwrites(self, i: int, value: Value) -> tuple[Value, ...]:
        """In whose memory a value may be written."""
        op, definition = self._operations[i], self._definitions[i]
        if op.name == WHILE:
            return self._read(op.operands[ir.OpResult(value).result_number])
        if definition.in_place:
            return self._read(op.operands[0])
        if not definition.fuses or len(op.regions):
            return ()
        size = self._types.type_info(value.type, None).bytes
        return tuple(
            v
            for v in self._read_all(op.operands)
            if self._types.type_info(v.type, None).bytes == size
        )


class _Combiner:
    """Which all_reduces XLA makes one: over the same devices, of types alike, none before another.

    It combines up to a size; what reads one of them runs after the last.
    """

    def __init__(self, types: OpReader) -> None:
        self._types = types
        self._open: dict[ir.Attribute, int] = {}  # per devices, the group that takes more
        self._bytes: list[float] = []
        self._kernels: list[Kernel] = []
        self._needs: list[int] = []  # per group the groups before it, as bits
        self._after: dict[Value, int] = {}  # the groups that a value depends on, as bits
        self._mine = 0  # those of the operation at hand
        self._group = -1

    def _before(self, reads: Sequence[Value]) -> int:
        before = 0
        for value in reads:
            before |= self._after.get(value, 0)
        return before

    def join(self, op: ir.Operation, reads: Sequence[Value]) -> Kernel | None:
        """The kernel that takes an all_reduce in; None if it begins one."""
        self._group = self._open.get(op.attributes["replica_groups"], -1)
        size = sum(self._types.type_info(value.type, None).bytes for value in op.operands)
        before = self._closed(self._before(reads))
        group = self._group
        if group < 0 or before >> group & 1 or self._bytes[group] + size > _COMBINED_BYTES:
            self._group = len(self._kernels)
            self._open[op.attributes["replica_groups"]] = self._group
            self._bytes.append(size)
            self._needs.append(before)
            return None
        self._bytes[group] += size
        self._needs[group] |= before
        return self._kernels[group]

    def open(self, kernel: Kernel) -> None:
        """The kernel of the group that the last all_reduce began."""
        self._kernels.append(kernel)

    def _closed(self, groups: int) -> int:
        """The groups, and all that are before them."""
        seen, left = 0, groups
        while left:
            group = left.bit_length() - 1
            seen |= 1 << group
            left = (left | self._needs[group]) & ~seen
        return seen

    def note(self, op: ir.Operation, reads: Sequence[Value], results: Sequence[Value]) -> None:
        """Remember which groups the results depend on."""
        after = self._before(reads)
        if op.name == _ALL_REDUCE:
            after |= 1 << self._group
        if after:
            self._after.update(dict.fromkeys(results, after))


def _in_order(kernels: Sequence[Kernel], arguments: Sequence[Value]) -> list[Kernel]:
    """Kernels in the order in which what they read is there, from the first argument on."""
    made = {value: kernel for kernel in kernels for value in kernel.writes}
    waits: dict[Kernel, int] = {}
    readers: dict[Kernel | Value, list[Kernel]] = {}
    known = set(arguments)
    ordered: list[Kernel] = []
    for kernel in kernels:
        needs = dict.fromkeys(made.get(v, v) for v in kernel.reads if v in made or v in known)
        waits[kernel] = len(needs)
        for need in needs:
            readers.setdefault(need, []).append(kernel)
    queue: list[Kernel | Value] = [*arguments, *(k for k in kernels if not waits[k])]
    for done in queue:  # grows as what it holds is done
        if isinstance(done, Kernel):
            ordered.append(done)
        for reader in readers.get(done, ()):
            waits[reader] -= 1
            if not waits[reader]:
                queue.append(reader)
    return ordered
