"""How much memory one device needs, from the local program alone."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dtensor.dialect.diagnostics import place_of
from dtensor.dialect.errors import MemoryLimitError
from dtensor.dialect.mlir import ir
from dtensor.passes.base import Pass, PassState
from dtensor.passes.functions import main_function
from dtensor.passes.graph import OpReader
from dtensor.passes.locations import location_text
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import BARRIER, CONTROL, WHILE, captured, terminator

_SHOWN = 5
# Several become one, whose results are there before its operands go; up to so many bytes.
_ALL_REDUCE = "stablehlo.all_reduce"
_COMBINED_BYTES = 30 << 20
# Cheap, and of one operand: computed again for each reader.
_REPEATED = frozenset(f"stablehlo.{name}" for name in ("convert", "compare", "negate", "not"))
# The same elements in the same place.
_ALIASES = ("stablehlo.reshape", BARRIER)


@dataclass(frozen=True)
class Tensor:
    """A value that takes memory: bytes on one device, and what it is.

    Attributes:
        bytes: how many.
        name: what it is, in words.
        location: the user's line that computes it; empty for arguments, or where it is not known.
        file: the file of that line with its folders; likewise.
        argument: which argument it is; None for others.
    """

    bytes: float
    name: str
    location: str = ""
    file: str = ""
    argument: int | None = None


@dataclass(frozen=True)
class MemoryReport:
    """What one device holds when it holds most.

    Attributes:
        peak_bytes: bytes of arguments, results and temporaries together.
        argument_bytes: bytes of the arguments, which are there all the time.
        tensors: the arguments and what else is alive at the peak, the largest first.
    """

    peak_bytes: float
    argument_bytes: float
    tensors: tuple[Tensor, ...]

    def largest(self) -> str:
        """The largest tensors at the peak, in words."""
        return "; ".join(f"{t.name}: {t.bytes:.0f} bytes" for t in self.tensors[:_SHOWN])

    def __str__(self) -> str:
        return f"peak memory: {self.peak_bytes:.0f} bytes per device\n" + "\n".join(
            f"  {t.bytes:.0f} bytes: {t.name}" for t in self.tensors
        )


@dataclass(frozen=True)
class ReportMemoryPass(Pass):
    """Estimates what one device holds at most; refuses a program that needs more than the limit.

    Arguments, results and the values alive at once, in program order. A value that XLA fuses into
    what reads it takes no memory, and keeps alive what it is computed from; all_reduces that XLA
    combines hold operands and results together; results take the memory of donated arguments. Runs
    on the program of one device, last: what canonicalisation removes takes no memory.
    """

    name: ClassVar[str] = "dtensor-report-memory"

    max_bytes: int = 0  # refuse a program that needs more; 0: CompileOptions.max_bytes_per_device
    print: bool = False  # write the report to standard error

    def run(self, module: ir.Module, state: PassState) -> None:
        report = state.memory_report = memory_report(main_function(module), state.donated)
        if self.print:
            sys.stderr.write(f"{report}\n")
        limit = self.max_bytes or state.max_bytes_per_device
        if limit and report.peak_bytes > limit:
            raise MemoryLimitError(
                f"the program needs about {report.peak_bytes:.0f} bytes per device, "
                f"max_bytes_per_device is {limit}; split the largest tensors over more axes, or "
                f"raise the limit: {report.largest()}"
            )


def memory_report(function: ir.Operation, donated: Sequence[int] = ()) -> MemoryReport:
    """What a function of local shapes holds at most.

    Args:
        function: the program of one device.
        donated: indices of arguments whose memory the results may take.
    """
    return _Liveness().function(function, donated)


class _Liveness:
    """Which values take memory, from where to where."""

    def __init__(self) -> None:
        self._types = OpReader()

    def _bytes(self, value: ir.Value[Any]) -> float:
        return self._types.type_info(value.type, None).bytes

    def function(self, function: ir.Operation, donated: Sequence[int]) -> MemoryReport:
        block = function.regions[0].blocks[0]
        arguments = [
            Tensor(self._bytes(a), f"argument {i} {a.type}", argument=i)
            for i, a in enumerate(block.arguments)
        ]
        spare = Counter(arguments[i].bytes for i in donated if i < len(arguments))
        results = list(terminator(block).operands)
        written = 0.0
        for value in results:
            if isinstance(value.owner, ir.Block):
                size = self._bytes(value)
                written += 0.0 if spare[size] else size
                spare[size] -= 1 if spare[size] else 0
        peak, alive = self._peak(block, spare)
        held = sum(t.bytes for t in arguments)
        temporaries = [Tensor(self._bytes(v), *_described(v)) for v in alive]
        tensors = sorted([*arguments, *temporaries], key=lambda t: -t.bytes)
        return MemoryReport(held + peak + written, held, tuple(tensors))

    def _peak(self, block: ir.Block, spare: Counter[float]) -> tuple[float, list[ir.Value[Any]]]:
        """The largest sum of values alive at once in a block, and those values.

        Args:
            block: the block.
            spare: sizes of what the values that the block passes on may be written over.
        """
        operations, together = _combined([x.operation for x in block.operations], self._types)
        reads = _Reads(operations, together)
        free = set()
        for value in operations[-1].operands:
            root = reads.root(value)
            size = self._bytes(root)
            if spare[size] and root in reads.position and root not in free:
                spare[size] -= 1
                free.add(root)
        held, peak, at_peak = 0.0, 0.0, list[ir.Value[Any]]()
        alive: dict[ir.Value[Any], float] = {}
        dying: dict[int, list[ir.Value[Any]]] = {}
        for i, op in enumerate(operations):
            name, inside = op.name, 0.0
            if name in CONTROL:
                inside = max((self._peak(r.blocks[0], Counter())[0] for r in op.regions), default=0)
            gone = dying.pop(i, [])
            if name == WHILE or _computes(name):  # written over what it reads last
                held -= sum(alive.pop(dead) for dead in gone)
                gone = []
            for value in op.results:
                end = reads.last.get(value)
                if end is None or value in free or reads.is_fused(value) or name in _ALIASES:
                    continue
                alive[value] = self._bytes(value)
                held += alive[value]
                dying.setdefault(end, []).append(value)
            if held + inside > peak:
                peak, at_peak = held + inside, list(alive)
            held -= sum(alive.pop(dead) for dead in gone)
        return peak, at_peak


class _Reads:
    """Until where in a block each value is read, looking through what XLA fuses.

    A fused value is computed again wherever it is read: its operands live as long as it does.
    """

    def __init__(self, operations: Sequence[ir.Operation], together: dict[int, int]) -> None:
        self.position: dict[ir.Value[Any], int] = {
            v: i for i, op in enumerate(operations) for v in op.results
        }
        self.last: dict[ir.Value[Any], int] = {}
        self._operations = operations
        self._users: dict[ir.Value[Any], list[int]] = {}
        for i, op in enumerate(operations):
            inside = captured(op, self.position) if op.name in CONTROL else []
            for value in [*op.operands, *inside]:
                self._users.setdefault(value, []).append(together.get(i, i))
        self._fused: dict[ir.Value[Any], bool] = {}
        for i in reversed(range(len(operations))):
            op = operations[i]
            for value in op.results:
                users = self._users.get(value)
                if users:
                    ends = [self._end(user) for user in users]
                    self.last[value] = max(*ends, together.get(i, i))

    def _end(self, user: int) -> int:
        """Until when a value is needed that operation number `user` reads."""
        op = self._operations[user]
        if len(op.results) == 1:
            result = op.results[0]
            if (op.name in _ALIASES or self.is_fused(result)) and result in self.last:
                return max(user, self.last[result])
        return user

    def root(self, value: ir.Value[Any]) -> ir.Value[Any]:
        """What a value that is another one in other words is."""
        while value in self.position:
            op = self._operations[self.position[value]]
            if op.name not in _ALIASES or len(op.operands) != 1:
                break
            value = op.operands[0]
        return value

    def is_fused(self, value: ir.Value[Any]) -> bool:
        """Whether the value is never written to memory."""
        found = self._fused.get(value)
        if found is None:
            found = self._fused[value] = self._find_fused(value)
        return found

    def _find_fused(self, value: ir.Value[Any]) -> bool:
        op = self._operations[self.position[value]]
        definition = opdef(op.name)
        if definition.rematerialisable and not op.operands:
            return True
        if not definition.fuses or _reduces(op):
            return False
        users = self._users.get(value, [])
        if not all(opdef(self._operations[user].name).fuses for user in users):
            return False
        return len(users) == 1 or definition.moves_only or op.name in _REPEATED


def _computes(name: str) -> bool:
    """Whether an op computes element by element: it may write over what it reads."""
    definition = opdef(name)
    return definition.fuses and not definition.moves_only


def _reduces(op: ir.Operation) -> bool:
    """Whether an op is fused with what it reads, and not with what reads it."""
    return len(op.regions) > 0


def _combined(
    operations: Sequence[ir.Operation], types: OpReader
) -> tuple[list[ir.Operation], dict[int, int]]:
    """The order in which XLA runs a block whose all_reduces it combines.

    It combines those over the same devices that do not depend on one another, up to a size; what
    reads one of them runs after the last.

    Returns:
        The operations, and per all_reduce the position of the last one that is combined with it.
    """
    groups: list[list[int]] = []
    current: dict[ir.Attribute, tuple[int, float]] = {}  # per devices: its open group, and bytes
    after: dict[ir.Value[Any], int] = {}  # the groups that a value depends on, as bits
    masks: dict[int, int] = {}
    for i, op in enumerate(operations):
        before = 0
        for value in op.operands:
            before |= after.get(value, 0)
        if before:
            masks[i] = before
        if op.name == _ALL_REDUCE:
            key = op.attributes["replica_groups"]
            size = sum(types.type_info(value.type, None).bytes for value in op.operands)
            group, held = current.get(key, (-1, 0.0))
            if group < 0 or before >> group & 1 or held + size > _COMBINED_BYTES:
                group, held = len(groups), 0.0
                groups.append([])
            groups[group].append(i)
            current[key] = group, held + size
            before |= 1 << group
        if before:
            after.update(dict.fromkeys(op.results, before))
    keys = [(i, 0, i) for i in range(len(operations))]
    ends = {
        mask: max(members[-1] for g, members in enumerate(groups) if mask >> g & 1)
        for mask in dict.fromkeys(masks.values())
    }
    for i, mask in masks.items():
        end = ends[mask]
        if end > i:
            keys[i] = end, 1, i
    order = [i for _, _, i in sorted(keys)]
    place = {old: new for new, old in enumerate(order)}
    together = {place[i]: max(map(place.__getitem__, g)) for g in groups for i in g}
    return [operations[i] for i in order], together


def _described(value: ir.Value[Any]) -> tuple[str, str, str]:
    """`dot_general tensor<4x64xf32> at train.py:41:7`; the line by itself; and its file."""
    op = ir.OpResult(value).owner.operation
    where, place = location_text(op.location), place_of(op.location)
    name = f"{op.name.split('.')[-1]} {value.type}{' at ' + where if where else ''}"
    return name, where, "" if place is None else place.file
