"""A planned program, block by block: what each device runs, and the same operations on one device.

Each block, `main` or a region of a loop or a branch, becomes programs of its own. The *tapped* one
is the block as planned, expanded, with every value for a result. The *steps* are its operations on
one device, each by itself: it reads what it read in the tapped program, so that a rounding or a
fault of one operation is not seen in the next. The *magnitudes* are those steps that add things up,
for the scale of what they add.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from dtensor.compiler.define_op import bodies_of
from dtensor.compiler.mlir_frontend import dtype_names
from dtensor.compiler.source import Source
from dtensor.compiler.stages import Lowered
from dtensor.compiler.verification.accuracy import accuracy_of, epsilon
from dtensor.compiler.verification.extract import (
    Extracted,
    extracted,
    hold_results,
    inside,
    undivided,
)
from dtensor.compiler.verification.numbering import Numbering
from dtensor.dialect.callbacks import is_callback, target_of
from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import bytecode_of, ir
from dtensor.dialect.names import MANUAL
from dtensor.passes.base import PassState
from dtensor.passes.locations import location_text
from dtensor.passes.ops.accuracy import Accuracy
from dtensor.passes.ops.attributes import CONSTANT
from dtensor.passes.ops.opdef import BY_RUN
from dtensor.passes.ops.table import opdef
from dtensor.passes.pipeline import Pipeline
from dtensor.passes.pipelines import pipeline_text
from dtensor.passes.program import CONTROL, free_axes
from dtensor.runtime.placement import platform_of

EXPAND = "dtensor-expand"
_IMPORT = "dtensor-import"
ALONE = Mesh([("alone", 1)])
"""The mesh of programs of one device."""
_LAST = "the last"
ON_SHARDS = "what shard_map computes on shards has no meaning on one device"
"""Such an operation is compared by what stands in it."""


@dataclass(frozen=True)
class Value:
    """A value of the program: its number, global shape, element type and planned layout."""

    number: int
    shape: tuple[int, ...]
    dtype: str
    layout: Layout


@dataclass(frozen=True)
class Program:
    """A module, what it takes and what it gives.

    Attributes:
        bytecode: the module.
        mesh: the mesh that it runs on.
        arguments: the values that it takes.
        results: the values that it gives.
    """

    bytecode: bytes
    mesh: Mesh
    arguments: tuple[Value, ...]
    results: tuple[Value, ...]


@dataclass(frozen=True)
class Operation:
    """An operation of a block.

    Attributes:
        title: its name; of a custom call, with the target.
        location: the user's line.
        operands: numbers of what it reads.
        results: numbers of what it gives.
        accuracy: what differences are measured by.
        skipped: why its results are not compared; empty if they are.
        control: its name if operations of the program stand in it; empty for others.
        blocks: the blocks of its regions, if it is one.
        factorises: whether LAPACK computes it, which leaves anything of what is not finite.
    """

    title: str
    location: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    accuracy: Accuracy
    skipped: str = ""
    control: str = ""
    blocks: tuple[Block | str, ...] = ()
    factorises: bool = False


@dataclass(frozen=True)
class Block:
    """A block of the program; a region that cannot be run by itself is the reason instead.

    Attributes:
        own: how many arguments of the tapped program are the block's; the others are values that
            it reads from outside.
        operations: its operations, in program order; none of what shard_map leaves no axis for.
        tapped: on all devices.
        steps: on one device; in shard_map on all, each of which has its shard whole.
        magnitudes: likewise, of magnitudes; None where nothing is added up.
        yields: numbers of what it passes on.
        free: the axes that the shard_map around it leaves to the planner, if it is in one.
    """

    own: int
    operations: tuple[Operation, ...]
    tapped: Program
    steps: Program
    magnitudes: Program | None
    yields: tuple[int, ...]
    free: tuple[str, ...] | None

    def reasons(self) -> set[str]:
        """Why operations are not compared by themselves, of blocks in it too."""
        blocks = [b for op in self.operations for b in op.blocks if isinstance(b, Block)]
        own = {op.skipped for op in self.operations} - {""}
        return own.union(*[block.reasons() for block in blocks])


@dataclass(frozen=True)
class Planned:
    """A program half-way through the passes.

    Attributes:
        imported: the module as it is after dtensor-import.
        module: the module before it is expanded, with layouts and relayouts.
        mesh: the mesh that it is planned for.
    """

    imported: bytes
    module: bytes
    mesh: Mesh


def planned(lowered: Lowered) -> Planned:
    """Run the passes once more, and keep the module on the way."""
    kept: dict[str, bytes] = {}

    def keep(name: str, module: ir.Module) -> None:
        if EXPAND not in kept:
            kept[name] = b"" if name == EXPAND else bytecode_of(module)
            kept[_LAST] = kept[name] or kept[_LAST]

    result = lowered._run(keep)
    return Planned(kept[_IMPORT], kept[_LAST], result.mesh)


class Reader:
    """Reads a planned program.

    Args:
        found: the program.
        source: what it was made from.
    """

    def __init__(self, found: Planned, source: Source) -> None:
        options = source.options
        self._found = found
        self._filename = source.filename
        self._mesh = found.mesh
        self._options = options
        self._platform = platform_of(found.mesh)
        passes = Pipeline.parse(options.pipeline or pipeline_text("dtensor-spmd")).steps
        names = [step.name for step in passes]
        self._expansion = Pipeline(passes[names.index(EXPAND) :])
        with make_context():
            module = self._module()
            self._numbering = Numbering(module)
            self._values = list(self._all_values())

    def read(self) -> Block:
        """The block of `main`, and in it all others."""
        with make_context():
            found = self._block(0)
        assert isinstance(found, Block), found
        return found

    def original(
        self, arguments: Sequence[Value], results: Sequence[Value], on_shards: bool
    ) -> Program:
        """`main` as it was before it was planned, every value whole.

        Args:
            arguments: what it takes.
            results: what it gives.
            on_shards: whether there is a shard_map in it, which needs all devices.
        """
        mesh = self._mesh if on_shards else ALONE
        with make_context():
            module = parse_module(self._found.imported, self._filename)
            with ir.Location.unknown():
                undivided(module, mesh)
            bytecode = self._expanded(module, mesh)
        return Program(bytecode, mesh, _undivided(arguments, mesh), _undivided(results, mesh))

    def values(self, numbers: Sequence[int]) -> list[Value]:
        """The values of these numbers."""
        return [self._known(number) for number in numbers]

    def _module(self) -> ir.Module:
        return parse_module(self._found.module, self._filename)

    def _all_values(self) -> Iterator[Value | None]:
        types = [value.type for value in self._numbering.numbers]
        for number, (type_, layout) in enumerate(zip(types, self._numbering.layouts, strict=True)):
            yield None if layout is None else _value(number, type_, layout)

    def _expanded(self, module: ir.Module, mesh: Mesh, holds: bool = False) -> bytes:
        options = self._options
        with ir.Location.unknown():
            state = PassState(
                mesh=mesh,
                cost=options.cost,
                definitions=options.ops,
                bodies=bodies_of(options.ops, self._platform),
            )
            self._expansion.run(module, state)
            if holds:
                hold_results(module)
        return bytecode_of(module)

    def _block(self, number: int) -> Block | str:
        block = self._extracted(number)
        if any(self._values[n] is None for n in block.arguments):
            return "it reads what jax cannot pass on: tokens, or values of 64 bits"
        numbers = list(zip(block.operands, block.results, block.regions, strict=True))
        operations = [
            self._operation(op, *row, block.yields)
            for op, row in zip(block.operations, numbers, strict=True)
        ]
        return Block(
            block.own,
            tuple(operations),
            self._tapped(block),
            self._steps(self._extracted(number), operations),
            self._magnitudes(self._extracted(number), operations),
            block.yields,
            block.free,
        )

    def _extracted(self, number: int) -> Extracted:
        with ir.Location.unknown():
            return extracted(self._module(), number, self._mesh)

    def _operation(
        self,
        op: ir.Operation,
        operands: tuple[int, ...],
        results: tuple[int, ...],
        regions: tuple[int, ...],
        passed: Container[int],
    ) -> Operation:
        is_control = op.name in (*CONTROL, MANUAL)
        return Operation(
            _title(op),
            location_text(op.location),
            operands,
            tuple(
                n
                for n, result in zip(results, op.results, strict=True)
                if self._values[n] is not None and (n in passed or _holds_something(op, result))
            ),
            accuracy_of(op),
            self._why_skipped(op, operands, results),
            op.name if is_control else "",
            tuple([self._block(number) for number in regions]),
            _title(op).startswith(_LAPACK),
        )

    def _why_skipped(
        self, op: ir.Operation, operands: Sequence[int], results: Sequence[int]
    ) -> str:
        works_on_shards = False
        for inner in [op] if op.name == MANUAL and free_axes(op) else inside(op):
            works_on_shards |= inner.name == MANUAL
            if opdef(inner.name).varies == BY_RUN:
                return f"{inner.name} gives other values each time"
            if is_callback(inner):
                return "it calls a Python function, which is called once"
        if any(self._numbering.layouts[n] is None for n in (*operands, *results)):
            return "it orders effects"
        return ON_SHARDS if works_on_shards else ""

    def _may_round(self, facts: Operation) -> bool:
        """Whether another way to compute an operation may give other numbers."""
        values = [value for n in facts.results if (value := self._values[n]) is not None]
        types = [np.dtype(value.dtype) for value in values]
        exact = facts.accuracy.roundings == 0 or not any(map(epsilon, types))
        return bool(facts.control) or not exact

    # The programs.

    def _tapped(self, block: Extracted) -> Program:
        rows: list[tuple[Sequence[int], Sequence[ir.Value[Any]]]] = [
            (numbers, op.results)
            for numbers, op in zip(block.results, block.operations, strict=True)
        ]
        if block.free == ():
            rows = [(block.yields, block.passed)]
        pairs: dict[int, ir.Value[Any]] = {}
        for numbers, values in rows:
            pairs.update(zip(numbers, values, strict=True))
        known = [
            (number, value)
            for number, value in pairs.items()
            if self._values[number] is not None and number not in block.arguments
        ]
        return self._program(block, block.arguments, known, holds=True)

    def _steps(self, block: Extracted, operations: Sequence[Operation]) -> Program:
        """Each operation of its own, on what the tapped program found.

        Scalars made of constants alone are not cut off from what reads them, XLA wants to see some;
        but those that it may round otherwise where it folds them are.
        """
        given, pairs, gone = list(block.arguments), [], []
        uncut: set[int] = set()
        for op, facts, numbers in zip(block.operations, operations, block.results, strict=True):
            if facts.skipped:
                gone.append(op)
            elif not self._may_round(facts) and uncut.issuperset(facts.operands):
                uncut.update(n for n in numbers if not self._has_dimensions(n))
            for number, value in zip(numbers, op.results, strict=True):
                if self._values[number] is None:
                    uncut.add(number)
                    continue
                if not facts.skipped:
                    pairs.append((number, value))
                if number not in uncut:
                    self._cut(block, value)
                    given.append(number)
        return self._program(block, given, pairs, gone)

    def _magnitudes(self, block: Extracted, operations: Sequence[Operation]) -> Program | None:
        given, pairs, gone = list(block.arguments), [], []
        for op, facts, numbers in zip(block.operations, operations, block.results, strict=True):
            keeps = facts.accuracy.is_sum and not facts.skipped
            if op.name == CONSTANT and not self._has_dimensions(numbers[0]):
                continue
            known = [self._values[number] is not None for number in numbers]
            if not all(known) and (len(op.regions) or op.name == "stablehlo.custom_call"):
                return None  # what reads it cannot be cut off, nor may it run once more
            for number, value, is_known in zip(numbers, op.results, known, strict=True):
                if not is_known:
                    continue
                self._cut(block, value)
                given.append(number)
                if keeps:
                    pairs.append((number, value))
            if not keeps and all(known):
                gone.append(op)
        return self._program(block, given, pairs, gone) if pairs else None

    def _has_dimensions(self, number: int) -> bool:
        value = self._values[number]
        return value is None or bool(value.shape)

    def _cut(self, block: Extracted, value: ir.Value[Any]) -> None:
        argument = block.block.add_argument(value.type, ir.Location.unknown())
        value.replace_all_uses_with(argument)

    def _program(
        self,
        block: Extracted,
        given: Sequence[int],
        pairs: Sequence[tuple[int, ir.Value[Any]]],
        gone: Sequence[ir.Operation] = (),
        holds: bool = False,
    ) -> Program:
        """The block with these results: as it is planned, to be looked at, or undivided."""
        mesh = self._mesh if holds or block.free is not None else ALONE
        arguments = tuple([self._known(number) for number in given])
        results = tuple([self._known(number) for number, _ in pairs])
        if not holds:
            arguments, results = _undivided(arguments, mesh), _undivided(results, mesh)
        with ir.Location.unknown():
            block.finish([value for _, value in pairs], [v.layout for v in results])
            for op in reversed(gone):
                op.erase()
            if holds:
                block.lay_out([v.layout for v in arguments], [v.layout for v in results])
            else:
                undivided(block.module, mesh)
        return Program(self._expanded(block.module, mesh, holds), mesh, arguments, results)

    def _known(self, number: int) -> Value:
        value = self._values[number]
        assert value is not None
        return value


def _undivided(values: Sequence[Value], mesh: Mesh) -> tuple[Value, ...]:
    return tuple([replace(v, layout=Layout.replicated(mesh, len(v.shape))) for v in values])


def _value(number: int, type_: ir.Type, layout: Layout) -> Value | None:
    """What can be an argument or a result of a program that jax runs; None for what cannot."""
    try:
        tensor = ir.RankedTensorType(type_)
    except ValueError:
        return None
    dtype = dtype_names().get(str(tensor.element_type))
    if dtype is None or jax.dtypes.canonicalize_dtype(dtype) != np.dtype(dtype):
        return None
    return Value(number, tuple(tensor.shape), dtype, layout)


def _holds_something(op: ir.Operation, result: ir.Value[Any]) -> bool:
    """Not so of a library's result that nobody reads: it may be left as the memory was."""
    return op.name != "stablehlo.custom_call" or any(True for _ in result.uses)


_LAPACK = "custom_call @lapack_"


def _title(op: ir.Operation) -> str:
    name = op.name.removeprefix("stablehlo.")
    return f"{name} @{target_of(op)}" if name == "custom_call" else name
