"""A block as it ran on the devices, and each of its steps undivided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from dtensor.compiler.verification.blocks import Block, Operation, Value
from dtensor.compiler.verification.compare import magnitudes, narrowed, part_magnitudes
from dtensor.compiler.verification.parts import Parted, Parts
from dtensor.compiler.verification.run import Found, Runner
from dtensor.compiler.verification.shards import Array, wide

Values = dict[int, Parted]


class BlockRun:
    """What the devices found in a block, and what its steps make of it.

    Args:
        runner: runs the programs.
        block: the block.
        given: the values of its arguments.
        where: the iterations of the loops around it.

    Attributes:
        where: as given.
        parts: the parts of the mesh whose devices hold a value together.
        infos: the values by number.
        shards: of each value, those of all devices.
        found: each value, put together.
        expected: what a step makes of what was found.
    """

    def __init__(
        self, runner: Runner, block: Block, given: Mapping[int, Parted], where: Sequence[str]
    ) -> None:
        self._runner = runner
        self._block = block
        self.where = where
        self.parts = Parts(runner.mesh, block.free)
        self.infos = {v.number: v for v in (*block.tapped.arguments, *block.tapped.results)}
        self.shards: Found = runner.on_all(block.tapped, given, self.parts)
        self.found: Values = dict(given)
        for number, shards in self.shards.items():
            self.found[number] = self.parts.join(self.infos[number], shards)
        self.expected: Values = runner.undivided(block.steps, self.found, self.parts)

    def is_finite(self, numbers: Sequence[int]) -> bool:
        """Whether all elements of some values are."""
        return all(np.isfinite(wide(value)).all() for n in numbers for value in self.found[n])

    def magnitude(self, operation: Operation, number: int, part: int) -> Array:
        """The scale of what is added up in a result: in it, and in what it is made of."""
        scale = self._of_terms(operation, number, part)
        for operand in operation.operands:
            value = self.infos.get(operand)
            if value and value.layout.partial and value.shape == scale.shape:
                scale = np.maximum(scale, self._of_parts(value, part))
        return scale

    def _of_parts(self, value: Value, part: int) -> Array:
        if value.number not in self.shards:  # an argument: one device has all of it
            return magnitudes(self.found[value.number][part])
        devices = list(self.parts.devices[part])
        return part_magnitudes(self.parts.value(value), self.shards[value.number][devices])

    def _of_terms(self, operation: Operation, number: int, part: int) -> Array:
        expected = self.expected[number][part]
        if operation.title in ("add", "subtract"):
            # A constant from outside of the block is not known; it is what the others leave.
            numbers = [n for n in operation.operands if n in self.found]
            sides = [magnitudes(self.found[n][part]) for n in numbers]
            left = 2 - len(sides)
            return np.asarray(sum(sides) * (1 + left) + left * magnitudes(expected))
        found = self._magnitudes.get(number) if operation.accuracy.is_sum else None
        return magnitudes(expected if found is None else found[part])

    @cached_property
    def _magnitudes(self) -> Values:
        program = self._block.magnitudes
        if program is None:
            return {}
        return self._runner.undivided(program, narrowed(self.found), self.parts)
