"""What XLA runs of a block, one kernel after the other: its fusions, and their order.

Values inside a fusion are never written to memory. A value is inside if all that reads it can be
fused with it, and computing it again in each of several readers costs little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dtensor.dialect.mlir import ir, ops_of, terminator
from dtensor.passes.graph import OpReader
from dtensor.passes.ops.opdef import OpDef
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import BARRIER, CONTROL, WHILE, captured, never_changed_in
from dtensor.passes.reports.combined import ALL_REDUCE, Combiner
from dtensor.passes.reports.orders import COLLECTIVE_DIMENSIONS, wanted_orders

COPY = "copy"
# The same elements in the same place.
_ALIASES = ("stablehlo.reshape", BARRIER)
# How XLA for CPU reduces: in a loop, which computes what it reads; over more elements of a
# dimension in two steps, the first of which reads memory; floats of so many elements by a library,
# which computes what nothing else reads.
_IN_LOOP, _IN_STEPS, _IN_LIBRARY = range(3)
_LOOP_ELEMENTS = 32
_LIBRARY_ELEMENTS = 4096


@dataclass(eq=False, frozen=True, slots=True)
class Reordered:
    """A value in another order in memory."""

    of: ir.Value[Any]

    @property
    def type(self) -> ir.Type:
        """The type of the value."""
        type_: ir.Type = self.of.type
        return type_


InMemory = ir.Value[Any] | Reordered


@dataclass(eq=False, slots=True)
class Kernel:
    """What runs at once: an operation with what is fused into it, or combined collectives.

    Attributes:
        operation: the operation whose results it writes; the first of combined ones.
        reads: the values in memory that it reads, each once.
        writes: the values that it writes to memory.
        overwrites: per written value those read ones in whose memory it may be written.
    """

    operation: ir.Operation
    reads: dict[InMemory, None] = field(default_factory=dict)
    writes: list[InMemory] = field(default_factory=list)
    overwrites: list[tuple[InMemory, ...]] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class _Step:
    """An operation, or a change of the order of its operand in memory."""

    op: ir.Operation
    name: str
    definition: OpDef
    operands: list[InMemory]
    results: list[InMemory]

    @property
    def reduces(self) -> bool:
        """Whether it is fused with what it reads, and not with what reads it."""
        return self.definition.fuses and self.name != COPY and len(self.op.regions) > 0


class Kernels:
    """The kernels of a block, in the order in which they run.

    Attributes:
        arguments: the arguments of the block.
        ordered: the kernels. XLA for CPU runs what is ready first. That for accelerators looks at
            the memory it takes: kernels run as the program has them (`as_written`), those that
            only arguments are needed for right before they are read.
        results: per value that the block passes on the one in memory that it is; None if it is a
            constant.
    """

    def __init__(self, block: ir.Block, types: OpReader, as_written: bool = False) -> None:
        self._types = types
        self._steps = _steps(block, types)
        self.arguments: list[InMemory] = list(block.arguments)
        self._maker: dict[InMemory, _Step] = {v: step for step in self._steps for v in step.results}
        self._readers: dict[InMemory, list[_Step]] = {}
        for step in self._steps:
            for value in dict.fromkeys(step.operands):
                self._readers.setdefault(value, []).append(step)
        passed = list(terminator(block).operands)
        self._fused: set[InMemory] = set()
        self._in_library = {id(s) for s in self._steps if self._reduction(s) == _IN_LIBRARY}
        self._find_fused(passed)
        self._sources: dict[tuple[InMemory, bool], tuple[InMemory, ...]] = {}
        made = self._make()
        self.results = [self._root(value) for value in passed]
        order = _as_written if as_written else _as_ready
        self.ordered = order(made, self.arguments)

    def _find_fused(self, passed: Sequence[InMemory]) -> None:
        """Find the values that are never written to memory."""
        kept = set(passed)
        homes: dict[InMemory, set[int]] = {}  # the operations that a value is computed for
        for step in reversed(self._steps):
            for k, value in enumerate(step.results):
                readers = self._readers.get(value, ())
                near: set[int] = set()
                for reader in readers:
                    near |= homes.get(reader.results[0], {id(reader)}) if reader.results else {-1}
                if step.name in _ALIASES:
                    homes[value] = near
                    if value in kept:
                        kept.add(step.operands[k])  # what it is in other words is written
                elif value not in kept and self._is_fused(step, readers, near):
                    self._fused.add(value)
                    homes[value] = near if len(near) <= 1 else {-1, -2}

    def _is_fused(self, step: _Step, readers: Sequence[_Step], homes: set[int]) -> bool:
        definition = step.definition
        if definition.rematerialisable and not step.operands:
            return True
        if not definition.fuses or step.reduces:
            return False
        is_read_apart = len(homes) > 1 and (definition.costly or bool(homes & self._in_library))
        return not is_read_apart and self._all_fuse(readers)

    def _all_fuse(self, readers: Sequence[_Step]) -> bool:
        """Whether what they read can be computed inside each, looking through other words."""
        return all(
            all(self._all_fuse(self._readers.get(value, ())) for value in step.results)
            if step.name in _ALIASES
            else self._fuses_operands(step)
            for step in readers
        )

    def _fuses_operands(self, step: _Step) -> bool:
        """Whether what a step reads can be computed inside it."""
        if step.reduces:
            return self._reduction(step) != _IN_STEPS
        return step.definition.fuses

    def _reduction(self, step: _Step) -> int | None:
        """How XLA for CPU does a reduce."""
        if not step.reduces:
            return None
        info = self._types.type_info(step.operands[0].type, None)
        if "f" in info.element and math.prod(info.shape) >= _LIBRARY_ELEMENTS:
            return _IN_LIBRARY
        if "dimensions" not in step.op.attributes:  # it works on its operands in another way
            return _IN_LOOP
        reduced = ir.DenseI64ArrayAttr(step.op.attributes["dimensions"])
        return _IN_LOOP if all(info.shape[d] <= _LOOP_ELEMENTS for d in reduced) else _IN_STEPS

    def _root(self, value: InMemory) -> InMemory | None:
        """The value in memory that this one is in other words; None of a constant."""
        while (step := self._maker.get(value)) is not None:
            if step.name not in _ALIASES:
                return None if value in self._fused else value
            value = step.operands[step.results.index(value)]
        return value

    def _read(self, value: InMemory, fusing: bool) -> tuple[InMemory, ...]:
        """The values in memory that one is computed from where it is read.

        Args:
            value: what is read.
            fusing: whether the reader can compute it itself, which costs little if all but one
                of what it is computed from are constants, smaller, and the like.
        """
        found = self._sources.get((value, fusing))
        if found is None:
            step = self._maker.get(value)
            if step is None:
                found = (value,)
            elif step.name in _ALIASES:
                found = self._read(step.operands[step.results.index(value)], fusing)
            elif value in self._fused or (fusing and self._is_made_again(step)):
                found = self._read_all(step.operands, True)
            else:
                found = (value,)
            self._sources[value, fusing] = found
        return found

    def _read_all(self, values: Sequence[InMemory], fusing: bool) -> tuple[InMemory, ...]:
        found: dict[InMemory, None] = {}
        for value in values:
            found.update(dict.fromkeys(self._read(value, fusing)))
        return tuple(found)

    def _is_made_again(self, step: _Step) -> bool:
        definition = step.definition
        if not definition.fuses or definition.costly or step.reduces:
            return False
        rank = self._rank(step.results[0])
        large = [value for value in step.operands if self._rank(value) >= rank]
        makers = [self._maker.get(value) for value in large]
        return sum(m is None or not m.definition.rematerialisable for m in makers) <= 1

    def _rank(self, value: InMemory) -> int:
        """How many dimensions have several elements."""
        return sum(size > 1 for size in self._types.type_info(value.type, None).shape)

    def _make(self) -> list[Kernel]:
        kernels: list[Kernel] = []
        groups = Combiner(self._types)
        for step in self._steps:
            results = [value for value in step.results if value not in self._fused]
            for value in step.results:  # near first: no deep recursion
                self._read(value, True)
            if step.name in _ALIASES or (step.results and not results):
                continue
            reads = self._read_all(step.operands, self._fuses_operands(step))
            kernel = groups.join(step.op, reads) if step.name == ALL_REDUCE else None
            if kernel is None:
                kernel = Kernel(step.op)
                kernels.append(kernel)
                if step.name == ALL_REDUCE:
                    groups.open(kernel)
            kernel.reads.update(dict.fromkeys(reads))
            kernel.writes += results
            kernel.overwrites += [self._overwrites(step, value, reads) for value in results]
            groups.note(step.name, reads, results)
        return kernels

    def _overwrites(
        self, step: _Step, value: InMemory, reads: Sequence[InMemory]
    ) -> tuple[InMemory, ...]:
        """In whose memory a value may be written."""
        if step.name == WHILE:
            assert not isinstance(value, Reordered)
            return self._read(step.op.operands[ir.OpResult(value).result_number], False)
        if step.definition.in_place:
            return self._read(step.operands[0], False)
        if not step.definition.fuses or step.reduces or step.name == COPY:
            return ()
        size = self._bytes(value)
        return tuple(v for v in reads if self._bytes(v) == size)

    def _bytes(self, value: InMemory) -> float:
        return self._types.type_info(value.type, None).bytes


def _steps(block: ir.Block, types: OpReader) -> list[_Step]:
    """The operations of a block, the last one left out, with copies in another order between."""
    operations = ops_of(block)[:-1]
    known: dict[Any, None] = dict.fromkeys(block.arguments)
    steps: list[_Step] = []
    copies: dict[tuple[InMemory, object], Reordered] = {}

    def copy(op: ir.Operation, value: InMemory, order: object) -> InMemory:
        if (value, order) not in copies:
            copies[value, order] = made = Reordered(
                value.of if isinstance(value, Reordered) else value
            )
            steps.append(_Step(op, COPY, opdef("stablehlo.transpose"), [value], [made]))
        return copies[value, order]

    for op in operations:
        name, results = op.name, list[InMemory](op.results)
        operands: list[InMemory] = [*op.operands]
        known.update(dict.fromkeys(results))
        if name in CONTROL:
            operands += [v for v in captured(op, known) if not _is_constant(v)]
        if name == WHILE:
            kept = never_changed_in(op)
            alias = opdef(_ALIASES[0])
            steps += [_Step(op, _ALIASES[0], alias, [operands[k]], [results[k]]) for k in kept]
            operands = [v for k, v in enumerate(operands) if not (k in kept and _is_constant(v))]
            results = [value for k, value in enumerate(results) if k not in kept]
        for k, order in wanted_orders(op, name, types):
            operands[k] = copy(op, operands[k], order)
        if name in COLLECTIVE_DIMENSIONS and wanted_orders(op, name, types):
            results = [Reordered(value) for value in op.results]
        steps.append(_Step(op, name, opdef(name), operands, results))
        if results and isinstance(results[0], Reordered):
            transpose = opdef("stablehlo.transpose")
            for value, result in zip(op.results, results, strict=True):
                steps.append(_Step(op, COPY, transpose, [result], [value]))
    return steps


def _is_constant(value: InMemory) -> bool:
    """Whether a value is a constant or repeats one: XLA makes it inside a loop that reads it."""
    if isinstance(value, Reordered) or isinstance(value.owner, ir.Block):
        return False
    op = ir.OpResult(value).owner.operation
    return opdef(op.name).rematerialisable and all(map(_is_constant, op.operands))


def _as_written(kernels: Sequence[Kernel], arguments: Sequence[InMemory]) -> list[Kernel]:
    """Kernels as the program has them, but what arguments give right before it is first read."""
    early: dict[InMemory, Kernel] = {}  # what they write
    known = set(arguments)
    for kernel in kernels:
        if all(value in early or value in known for value in kernel.reads):
            early.update(dict.fromkeys(kernel.writes, kernel))
    ordered: list[Kernel] = []
    done: set[Kernel] = set()

    def run(kernel: Kernel) -> None:
        stack = [kernel]
        while stack:
            needs = [early[v] for v in stack[-1].reads if v in early and early[v] not in done]
            if needs:
                stack += reversed(needs)
            elif (ready := stack.pop()) not in done:
                done.add(ready)
                ordered.append(ready)

    first = set(early.values())
    for kernel in sorted(kernels, key=lambda k: k in first):
        run(kernel)
    return ordered


def _as_ready(kernels: Sequence[Kernel], arguments: Sequence[InMemory]) -> list[Kernel]:
    """Kernels in the order in which what they read is there, from the first argument on."""
    made = {value: kernel for kernel in kernels for value in kernel.writes}
    waits: dict[Kernel, int] = {}
    readers: dict[Kernel | InMemory, list[Kernel]] = {}
    known = set(arguments)
    ordered: list[Kernel] = []
    for kernel in kernels:
        needs = dict.fromkeys(made.get(v, v) for v in kernel.reads if v in made or v in known)
        waits[kernel] = len(needs)
        for need in needs:
            readers.setdefault(need, []).append(kernel)
    queue: list[Kernel | InMemory] = [*arguments, *(k for k in kernels if not waits[k])]
    for done in queue:  # grows as what it holds is done
        if isinstance(done, Kernel):
            ordered.append(done)
        for reader in readers.get(done, ()):
            waits[reader] -= 1
            if not waits[reader]:
                queue.append(reader)
    return ordered
