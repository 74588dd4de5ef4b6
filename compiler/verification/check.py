"""Each block on all devices against its steps on one, and the blocks in its loops and branches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from dtensor.compiler.verification.accuracy import epsilon
from dtensor.compiler.verification.blocks import ON_SHARDS, Block, Operation, Value
from dtensor.compiler.verification.compare import difference, magnitudes, narrowed, part_magnitudes
from dtensor.compiler.verification.report import Difference
from dtensor.compiler.verification.run import Found, Runner
from dtensor.compiler.verification.shards import Array, join, wide
from dtensor.passes.program import WHILE

ITERATIONS = 4
"""How many iterations of a loop are always looked into."""
_MOST_ITERATIONS = 4096  # where the loop as a whole differs

Values = dict[int, Array]


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

    def block(self, block: Block, given: Mapping[int, Array], where: Sequence[str]) -> Values:
        """Compare a block, and give the values that the devices found.

        Args:
            block: the block.
            given: the values of its arguments.
            where: the iterations of the loops around it.
        """
        shards = self.runner.on_all(block.tapped, given)
        infos = {v.number: v for v in (*block.tapped.arguments, *block.tapped.results)}
        found = dict(given)
        for number, of_all in shards.items():
            value = infos[number]
            found[number] = join(of_all, value.layout, value.shape)
        steps = _Steps(self.runner, block, found, infos, shards)
        for operation in block.operations:
            if operation.skipped:
                self._skip(operation)
                if operation.control and operation.skipped == ON_SHARDS:
                    self._inside(operation, found, where, False)
            else:
                self._operation(operation, infos, shards, steps, found, where)
        return found

    def _skip(self, operation: Operation) -> None:
        at = f" at {operation.location}" if operation.location else ""
        self.not_compared[f"{operation.title}{at}: {operation.skipped}"] = None

    def _operation(
        self,
        operation: Operation,
        infos: Mapping[int, Value],
        shards: Found,
        steps: _Steps,
        found: Values,
        where: Sequence[str],
    ) -> None:
        if operation.factorises and not all(_is_finite(found[n]) for n in operation.operands):
            self.not_compared[
                f"{operation.title} at {operation.location}: it leaves "
                "anything of numbers that are not finite"
            ] = None
            return
        parts = _parts([infos[n] for n in (*operation.operands, *operation.results) if n in infos])
        is_sum = operation.accuracy.is_sum or parts > 1
        # Parts are added up in their own type where one device reads them.
        split = [infos[n] for n in operation.operands if n in infos and infos[n].layout.partial]
        least = max([epsilon(np.dtype(each.dtype)) for each in split], default=0.0) * parts
        wrong: list[Difference] = []
        for number in operation.results:
            self.values += 1
            terms = partial(steps.magnitude, operation, number) if is_sum else None
            value, expected = infos[number], steps.expected[number]
            worst = difference(
                operation, value, shards[number], expected, parts, terms, where, least
            )
            wrong += [] if worst is None else [worst]
        self._operations.add(id(operation))
        if operation.control:
            self._inside(operation, found, where, bool(wrong))
        elif wrong and id(operation) not in self._reported:
            self._reported.add(id(operation))
            self.differences.append(wrong[0])

    def _inside(
        self, operation: Operation, found: Values, where: Sequence[str], differs: bool
    ) -> None:
        """What a loop or a branch does; where that is right, so is it, up to rounding."""
        before = len(self.differences)
        reasons = [block for block in operation.blocks if isinstance(block, str)]
        if reasons:
            at = f"{operation.title} at {operation.location}"
            self.not_compared[f"inside of {at}: {reasons[0]}"] = None
            return
        if operation.control == WHILE:
            self._loop(operation, found, where, _MOST_ITERATIONS if differs else ITERATIONS)
        else:
            self._branch(operation, found, where)
        if differs and len(self.differences) == before:
            self.not_compared[
                f"{operation.title} at {operation.location} as a whole: each step of it is right, "
                "but roundings that differ grow or turn a condition in it"
            ] = None

    def _loop(self, operation: Operation, found: Values, where: Sequence[str], most: int) -> None:
        condition, body = operation.blocks
        assert isinstance(condition, Block)
        assert isinstance(body, Block)
        state = [found[number] for number in operation.operands]
        for iteration in range(most):
            here = [f"iteration {iteration} of the loop at {operation.location}", *where]
            going = self._region(condition, state, found, here)
            if not bool(going[0]):
                return
            before = len(self.differences)
            state = self._region(body, state, found, here)
            if len(self.differences) > before:
                return
        if most == ITERATIONS and bool(self._region(condition, state, found, where)[0]):
            later = f"iterations {ITERATIONS} and later of the loop at {operation.location}"
            self.not_compared[later if operation.skipped else f"{later}; its results are"] = None

    def _branch(self, operation: Operation, found: Values, where: Sequence[str]) -> None:
        number = operation.operands[0]
        count = len(operation.blocks)
        chosen = int(found[number])
        if operation.control == "stablehlo.if":
            chosen = 0 if chosen else 1
        elif not 0 <= chosen < count:
            chosen = count - 1
        block = operation.blocks[chosen]
        assert isinstance(block, Block)
        self._region(block, [], found, [f"branch {chosen} at {operation.location}", *where])

    def _region(
        self, block: Block, own: Sequence[Array], found: Values, where: Sequence[str]
    ) -> list[Array]:
        """Compare a region, and give what it passes on."""
        arguments = block.tapped.arguments
        given = {v.number: x for v, x in zip(arguments[: block.own], own, strict=True)}
        given |= {v.number: found[v.number] for v in arguments[block.own :]}
        values = self.block(block, given, where)
        return [values[number] for number in block.yields]


class _Steps:
    """What one device makes of what the operations of a block read."""

    def __init__(
        self,
        runner: Runner,
        block: Block,
        found: Values,
        infos: Mapping[int, Value],
        shards: Found,
    ) -> None:
        self._runner = runner
        self._block = block
        self._found = found
        self._infos = infos
        self._shards = shards
        self._magnitudes: Values | None = None
        self.expected = runner.on_one(block.steps, found)

    def magnitude(self, operation: Operation, number: int) -> Array:
        """The scale of what is added up in a result: in it, and in what it is made of."""
        scale = self._of_terms(operation, number)
        for operand in operation.operands:
            value = self._infos.get(operand)
            if value and value.layout.partial and value.shape == scale.shape:
                scale = np.maximum(scale, self._of_parts(value))
        return scale

    def _of_parts(self, value: Value) -> Array:
        if value.number in self._shards:
            return part_magnitudes(value, self._shards[value.number])
        return magnitudes(self._found[value.number])  # an argument: one device has all of it

    def _of_terms(self, operation: Operation, number: int) -> Array:
        if operation.title in ("add", "subtract"):
            # A constant from outside of the block is not known; it is what the others leave.
            sides = [magnitudes(self._found[n]) for n in operation.operands if n in self._found]
            left = 2 - len(sides)
            return np.asarray(sum(sides) * (1 + left) + left * magnitudes(self.expected[number]))
        if operation.accuracy.is_sum and self._magnitudes is None:
            program = self._block.magnitudes
            given = narrowed(self._found)
            self._magnitudes = {} if program is None else self._runner.on_one(program, given)
        return magnitudes((self._magnitudes or {}).get(number, self.expected[number]))


def _parts(values: Sequence[Value]) -> int:
    sizes = [
        int(np.prod([axis.size for axis in value.layout.partial_axes], initial=1))
        for value in values
    ]
    return max(sizes, default=1)


def _is_finite(value: Array) -> bool:
    return bool(np.isfinite(wide(value)).all())
