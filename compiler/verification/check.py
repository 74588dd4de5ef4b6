"""Each block on all devices against its steps on one, and the blocks that stand in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from dtensor.compiler.verification.accuracy import epsilon
from dtensor.compiler.verification.block_run import BlockRun, Values
from dtensor.compiler.verification.blocks import ON_SHARDS, Block, Operation, Value
from dtensor.compiler.verification.compare import difference
from dtensor.compiler.verification.near import NEAR, TRIES, apart, moved
from dtensor.compiler.verification.parts import Parted, Parts, inner_value
from dtensor.compiler.verification.report import Difference
from dtensor.compiler.verification.run import Runner
from dtensor.compiler.verification.shards import Array, Shards
from dtensor.dialect.names import MANUAL
from dtensor.passes.program import WHILE

ITERATIONS = 4
"""How many iterations of a loop are always looked into."""
_MOST_ITERATIONS = 4096  # where the loop as a whole differs

Terms = Callable[[int], Array]  # the scale of what was added up, by the part of the mesh


@dataclass
class Checker:
    """Compares, and remembers what it found.

    Attributes:
        runner: what runs the programs.
        differences: what differs, in program order.
        not_compared: what was not compared, and why.
        values: how many values were.
    """

    runner: Runner
    differences: list[Difference] = field(default_factory=list)
    not_compared: dict[str, None] = field(default_factory=dict)
    values: int = 0
    _reported: set[int] = field(default_factory=set)
    _operations: set[int] = field(default_factory=set)

    @property
    def operations(self) -> int:
        """How many operations were compared."""
        return len(self._operations)

    def block(self, block: Block, given: Mapping[int, Parted], where: Sequence[str]) -> Values:
        """Compare a block, and give the values that the devices found.

        Args:
            block: the block.
            given: the values of its arguments.
            where: the iterations of the loops around it.
        """
        run = BlockRun(self.runner, block, given, where)
        for operation in block.operations:
            if operation.skipped == ON_SHARDS:
                self._inside(operation, run, False)
            elif operation.skipped:
                self._skip(operation)
            else:
                self._operation(operation, run)
        return run.found

    def _skip(self, operation: Operation) -> None:
        at = f" at {operation.location}" if operation.location else ""
        self.not_compared[f"{operation.title}{at}: {operation.skipped}"] = None

    def _operation(self, operation: Operation, run: BlockRun) -> None:
        if operation.factorises and not run.is_finite(operation.operands):
            self.not_compared[
                f"{operation.title} at {operation.location}: it leaves "
                "anything of numbers that are not finite"
            ] = None
            return
        infos = run.infos
        count = _parts([infos[n] for n in (*operation.operands, *operation.results) if n in infos])
        is_sum = operation.accuracy.is_sum or count > 1
        # Parts are added up in their own type where one device reads them.
        split = [infos[n] for n in operation.operands if n in infos and infos[n].layout.partial]
        least = max([epsilon(np.dtype(each.dtype)) for each in split], default=0.0) * count
        wrong: list[Difference] = []
        for number in operation.results:
            terms = partial(run.magnitude, operation, number) if is_sum else None
            shards, expected = run.shards[number], run.expected[number]
            compared = (operation, infos[number], shards, expected, run.parts, run.where)
            wrong += self._compared(*compared, count, terms, least)
        self._operations.add(id(operation))
        if operation.control:
            self._inside(operation, run, bool(wrong))
        elif wrong:
            self._report(operation, wrong[0])

    def _compared(
        self,
        operation: Operation,
        value: Value,
        shards: Shards,
        expected: Parted,
        parts: Parts,
        where: Sequence[str],
        count: int = 1,
        terms: Terms | None = None,
        least: float = 0.0,
        noise: float = 0.0,
    ) -> list[Difference]:
        """The worst element of each part of the mesh on which a value differs."""
        wrong = []
        for k, devices in enumerate(parts.devices):
            self.values += 1
            worst = difference(
                operation,
                parts.value(value),
                shards[list(devices)],
                expected[k],
                count,
                terms and partial(terms, k),
                (*parts.name(k), *where),
                least,
                noise,
            )
            if worst is not None:
                wrong.append(replace(worst, layout=value.layout, device=devices[worst.device]))
        return wrong

    def _report(self, operation: Operation, wrong: Difference) -> None:
        if id(operation) not in self._reported:
            self._reported.add(id(operation))
            self.differences.append(wrong)

    def _inside(self, operation: Operation, run: BlockRun, differs: bool) -> None:
        """What stands in an operation; where that is right, so is it, up to rounding."""
        before = len(self.differences)
        at = f"{operation.title} at {operation.location}"
        reasons = [block for block in operation.blocks if isinstance(block, str)]
        if reasons:
            self.not_compared[f"inside of {at}: {reasons[0]}"] = None
            return
        if operation.control == MANUAL:
            self._on_shards(operation, run)
        elif operation.control == WHILE:
            self._loop(operation, run, _MOST_ITERATIONS if differs else ITERATIONS)
        else:
            self._branch(operation, run)
        if differs and len(self.differences) == before:
            self.not_compared[
                f"{at} as a whole: each step of it is right, "
                "but roundings that differ grow or turn a condition in it"
            ] = None

    def _on_shards(self, operation: Operation, run: BlockRun) -> None:
        """A shard_map: what stands in it, and that this is what it gives."""
        (block,) = operation.blocks
        assert isinstance(block, Block)
        assert block.free is not None
        inner = Parts(self.runner.mesh, block.free)
        arguments = block.tapped.arguments
        given = {}
        for k, value in enumerate(arguments):
            if k < block.own:
                number = operation.operands[k]
                layout = run.infos[number].layout
                given[value.number] = run.parts.inside(inner, layout, run.found[number])
            else:
                given[value.number] = run.parts.same(inner, run.found[value.number])
        found = self.block(block, given, run.where)
        self._operations.add(id(operation))
        known = [number for number in block.yields if number in found]
        for number, inside in zip(operation.results, known, strict=True):
            value, passed, shards = run.infos[number], found[inside], run.shards[number]
            made = inner_value(value, passed[0].shape, block.free)
            compared = (operation, made, shards, passed, inner, run.where)
            wrong = self._compared(*compared)
            if wrong:
                noise = self._noise(operation, block, given, inside)
                wrong = self._compared(*compared, noise=noise)
            if wrong:
                self._report(operation, wrong[0])

    def _noise(self, operation: Operation, block: Block, given: Values, number: int) -> float:
        """How far what a region gives lies apart where what it reads does by its roundings."""
        parts, runs = Parts(self.runner.mesh, block.free), []
        each = {(n, k): value for n, of_parts in given.items() for k, value in enumerate(of_parts)}
        for seed in range(TRIES + 1):
            near = moved(each, operation.accuracy.roundings if seed else 0.0, seed)
            values = {
                n: [near[n, k] for k in range(len(of_parts))] for n, of_parts in given.items()
            }
            runs.append(self.runner.on_all(block.tapped, values, parts)[number])
        return NEAR * max(apart(run, runs[0]) for run in runs)

    def _loop(self, operation: Operation, run: BlockRun, most: int) -> None:
        condition, body = operation.blocks
        assert isinstance(condition, Block)
        assert isinstance(body, Block)
        loop = f"the loop at {operation.location}"
        state = [run.found[number] for number in operation.operands]
        for iteration in range(most):
            here = [f"iteration {iteration} of {loop}", *run.where]
            going = self._agreed(self._region(condition, state, run, here)[0], loop)
            if not going:
                return
            before = len(self.differences)
            state = self._region(body, state, run, here)
            if len(self.differences) > before:
                return
        if most == ITERATIONS and self._region(condition, state, run, run.where)[0][0]:
            later = f"iterations {ITERATIONS} and later of {loop}"
            self.not_compared[later if operation.skipped else f"{later}; its results are"] = None

    def _branch(self, operation: Operation, run: BlockRun) -> None:
        count = len(operation.blocks)
        branch = f"the branch at {operation.location}"
        chosen = self._agreed(run.found[operation.operands[0]], branch)
        if chosen is None:
            return
        if operation.control == "stablehlo.if":
            chosen = 0 if chosen else 1
        elif not 0 <= chosen < count:
            chosen = count - 1
        block = operation.blocks[chosen]
        assert isinstance(block, Block)
        self._region(block, [], run, [f"branch {chosen} at {operation.location}", *run.where])

    def _agreed(self, steered: Parted, what: str) -> int | None:
        """What steers a loop or a branch; None where the shards of a shard_map go several ways."""
        values = {int(value) for value in steered}
        if len(values) == 1:
            return values.pop()
        self.not_compared[f"inside of {what}: shards go different ways"] = None
        return None

    def _region(
        self, block: Block, own: Sequence[Parted], run: BlockRun, where: Sequence[str]
    ) -> list[Parted]:
        """Compare a region, and give what it passes on."""
        arguments = block.tapped.arguments
        given = {v.number: x for v, x in zip(arguments[: block.own], own, strict=True)}
        given |= {v.number: run.found[v.number] for v in arguments[block.own :]}
        values = self.block(block, given, where)
        return [values[number] for number in block.yields]


def _parts(values: Sequence[Value]) -> int:
    sizes = [
        int(np.prod([axis.size for axis in value.layout.partial_axes], initial=1))
        for value in values
    ]
    return max(sizes, default=1)
