"""The memory that a block needs beside its arguments: which values share a place, and the peak."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

from dtensor.dialect.mlir import ir
from dtensor.passes.graph import OpReader
from dtensor.passes.program import CONTROL, WHILE
from dtensor.passes.reports.kernels import InMemory, Kernel, Kernels

_WORTH_PLACING = 1e-3  # of the largest value: what is smaller takes memory of its own


@dataclass(frozen=True)
class Need:
    """What a block needs beside its arguments.

    Attributes:
        bytes: of temporary values, at the peak.
        alive: those values, with their bytes; an argument stands for a copy of it.
        new_results: numbers of the results that take memory of their own.
        at: the operation that runs at the peak; None where nothing does.
    """

    bytes: float
    alive: list[tuple[InMemory, float]]
    new_results: list[int]
    at: ir.Operation | None


@dataclass(eq=False, slots=True)
class _Buffer:
    """A place for a value and for those written over it, from one kernel to another."""

    size: float
    start: int
    end: int
    values: list[InMemory]


@dataclass(eq=False, slots=True)
class _Host:
    """Memory that is there all the time, and when something is in it."""

    size: float
    taken: list[tuple[int, int]] = field(default_factory=list)

    def takes(self, buffer: _Buffer) -> bool:
        """Put a buffer here if there is room as long as it lives."""
        if any(start <= buffer.end and buffer.start <= end for start, end in self.taken):
            return False
        self.taken.append((buffer.start, buffer.end))
        return True


def buffers_needed(
    block: ir.Block, pairs: Mapping[int, int], types: OpReader, as_written: bool
) -> Need:
    """What a block needs beside its arguments.

    `pairs` has, per result, the argument that it takes the memory of; others take their own.
    `as_written` is the order in which kernels run: see `Kernels.ordered`.
    """
    return _Buffers(block, pairs, types, as_written).need()


class _Buffers:
    def __init__(
        self, block: ir.Block, pairs: Mapping[int, int], types: OpReader, as_written: bool
    ) -> None:
        self.types, self.pairs, self.as_written = types, pairs, as_written
        self.kernels = Kernels(block, types, as_written)
        self.made = {v: k for k, kernel in enumerate(self.kernels.ordered) for v in kernel.writes}
        self.last: dict[InMemory, int] = {}
        for k, kernel in enumerate(self.kernels.ordered):
            self.last.update(dict.fromkeys(kernel.reads, k))
        self.placed: set[InMemory] = set()  # in the memory of a result
        self.new_results: list[int] = []
        self.hosts: list[_Host] = []
        self.buffers: list[_Buffer] = []

    def _bytes(self, value: InMemory) -> float:
        return self.types.type_info(value.type, None).bytes

    def need(self) -> Need:
        self._place_results()
        self._place_temporaries()
        self._use_hosts()
        return self._peak()

    def _place_results(self) -> None:
        end = len(self.kernels.ordered)
        arguments = self.kernels.arguments
        for j, value in enumerate(self.kernels.results):
            paired = self.pairs.get(j)
            if paired is None:
                self.new_results.append(j)
            if paired is not None and value == arguments[paired]:
                continue
            begin = end
            if value is not None and value in self.made and value not in self.placed:
                self.placed.add(value)
                begin = self.made[value]
            elif value is not None:
                self.last[value] = end
            if paired is None:
                size = 0.0 if value is None else self._bytes(value)
                self.hosts.append(_Host(size, [(begin, end)]))
            else:
                self._reuse(arguments[paired], begin)

    def _reuse(self, argument: InMemory, begin: int) -> None:
        """From a kernel on, a result is in an argument's memory; later readers read a copy."""
        host, end = _Host(self._bytes(argument)), len(self.kernels.ordered)
        last = self.last.get(argument, -1)
        if self._is_copied(argument, begin):
            self.buffers.append(_Buffer(host.size, -1, last, [argument]))
            last = -1
        host.taken = [(-1, last), (begin, end)]
        self.hosts.append(host)

    def _is_copied(self, argument: InMemory, begin: int) -> bool:
        """Whether something reads an argument that need not run before a result takes its place."""
        if begin == len(self.kernels.ordered):
            return False
        readers = self._readers().get(argument, 0)
        maker = self.kernels.ordered[begin]
        over = any(argument in values for values in maker.overwrites)
        return bool(readers & ~self._before[begin]) or (argument in maker.reads and not over)

    def _readers(self) -> dict[InMemory, int]:
        """Per argument the kernels that read it, as bits."""
        if not hasattr(self, "_before"):
            arguments = {self.kernels.arguments[i] for i in self.pairs.values()}
            self._bits: dict[InMemory, int] = {}
            self._before: list[int] = []  # per kernel those that run before it, and itself
            bit = 1
            for kernel in self.kernels.ordered:
                before = 0
                for value in kernel.reads:
                    if value in self.made:
                        before |= self._before[self.made[value]]
                read = [value for value in kernel.reads if value in arguments]
                for value in read:
                    self._bits[value] = self._bits.get(value, 0) | bit
                if read:
                    before |= bit
                    bit <<= 1
                self._before.append(before)
        return self._bits

    def _place_temporaries(self) -> None:
        place: dict[InMemory, _Buffer] = {}
        for k, kernel in enumerate(self.kernels.ordered):
            for value, overwrites in zip(kernel.writes, kernel.overwrites, strict=True):
                if value in self.placed:
                    continue
                size, end = self._bytes(value), self.last.get(value, k)
                buffer = None
                for over in overwrites:
                    found = place.get(over)
                    if found is not None and found.end == k and found.size == size:
                        buffer = found
                        break
                if buffer is None:
                    buffer = _Buffer(size, k, end, [value])
                    self.buffers.append(buffer)
                else:
                    buffer.end = end
                    buffer.values.append(value)
                place[value] = buffer

    def _use_hosts(self) -> None:
        """Put temporaries into memory of arguments and results that is free; the largest first."""
        self.hosts.sort(key=lambda host: host.size)
        sizes = [host.size for host in self.hosts]
        left = []
        least = max((buffer.size for buffer in self.buffers), default=0.0) * _WORTH_PLACING
        for buffer in sorted(self.buffers, key=lambda b: -b.size):
            first = bisect_left(sizes, buffer.size)
            if buffer.size < least or not any(host.takes(buffer) for host in self.hosts[first:]):
                left.append(buffer)
        self.buffers = left

    def _peak(self) -> Need:
        ordered = self.kernels.ordered
        change = [0.0] * (len(ordered) + 2)
        for buffer in self.buffers:
            change[buffer.start + 1] += buffer.size
            change[min(buffer.end, len(ordered) - 1) + 2] -= buffer.size
        held, peak, at = 0.0, 0.0, -1
        inner: Need | None = None
        for k in range(-1, len(ordered)):
            held += change[k + 1]
            inside = self._inside(ordered[k]) if k >= 0 else None
            needs = held + (inside.bytes if inside is not None else 0.0)
            if needs > peak:
                peak, at, inner = needs, k, inside
        alive = [(self._at(b, at), b.size) for b in self.buffers if b.start <= at <= b.end]
        if inner is not None:
            return Need(peak, [*alive, *inner.alive], self.new_results, inner.at)
        return Need(peak, alive, self.new_results, ordered[at].operation if at >= 0 else None)

    def _at(self, buffer: _Buffer, k: int) -> InMemory:
        """What is in a buffer while a kernel runs."""
        there = [v for v in buffer.values if self.made.get(v, -1) <= k]
        return there[-1]

    def _inside(self, kernel: Kernel) -> Need | None:
        """What the regions of a loop or a branch need beside what flows in and out."""
        op = kernel.operation
        if op.name not in CONTROL:
            return None
        pairs = {i: i for i in range(len(op.operands))} if op.name == WHILE else {}
        needs = [
            buffers_needed(region.blocks[0], pairs, self.types, self.as_written)
            for region in op.regions
        ]
        return max(needs, key=lambda need: need.bytes, default=None)
