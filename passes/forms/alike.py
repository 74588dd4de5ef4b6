"""Whether a value is computed in the same way as another, of other values and for other rows."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Any

from dtensor.dialect.mlir import Value, ir, maker_of, ops_of
from dtensor.dialect.names import DOT_NUMBERS
from dtensor.passes.forms.scalars import attributes_of
from dtensor.passes.ops.attributes import (
    CONSTANT,
    dot_sides,
    element_of,
    repeat_alike,
    shape_of,
    splat_of,
    spread_dims,
)
from dtensor.passes.ops.patterns import adds_ones, without_ones
from dtensor.passes.ops.rows import fit_rows
from dtensor.passes.ops.rule import OpInfo
from dtensor.passes.ops.table import rule_of
from dtensor.passes.program import CONTROL


@dataclass(eq=False)
class Alike:
    """Compares values with a pattern: the same operations, on other values and other rows.

    Attributes:
        block: the block in which the compared values are computed.
        leaves: the values that the pattern is computed of.
        written: how many rows the pattern has.
        rows: how many rows the compared values have.
        fits: whether a value may stand in the place of a leaf.
        ops: the operations of compared values that were found so far.
    """

    block: ir.Block
    leaves: Container[Value]
    written: int
    rows: int
    fits: Callable[[Value, Value], bool]
    ops: set[ir.Operation] = field(default_factory=set)
    _known: dict[Value, Value] = field(default_factory=dict)
    _left: list[tuple[Value, Value]] = field(default_factory=list)

    def follows(self, pattern: Value, value: Value) -> bool:
        """Whether `value` is computed as `pattern` is."""
        self._left = [(pattern, value)]
        while self._left:
            if not self._holds(*self._left.pop()):
                return False
        return True

    def _holds(self, pattern: Value, value: Value) -> bool:
        """Whether the makers of two values do the same; their operands are put on the list."""
        bare, ones = without_ones(value) if self.rows == 1 else (value, [])
        if pattern in self._known:
            self.ops.update(ones if pattern in self.leaves else [])
            return bool(self._known[pattern] == bare)
        self._known[pattern] = bare
        if pattern in self.leaves:
            self.ops.update(ones)
            stages = [value, *[one.operands[0] for one in ones]]
            return any(self.fits(pattern, stage) for stage in stages)
        number = splat_of(pattern)
        if number is not None:
            return splat_of(value) == number
        wanted, op = maker_of(pattern), maker_of(value)
        assert wanted is not None, "what is computed of the leaves"
        if self.rows == 1 and _repeats_one(wanted, self.written):
            self._left.append((wanted.operands[0], value))
            return True
        stage = value
        if op in ones and op.name != wanted.name:
            self.ops.update(ones)
            stage, op = bare, maker_of(bare)
        if op is None or op.block != self.block or not self._does_alike(wanted, op):
            if self.rows != 1 or not adds_ones(wanted) or not self._is_one_row(pattern, value):
                return False
            self._left.append((wanted.operands[0], value))
            return True
        numbers = [ir.OpResult(each).result_number for each in (pattern, stage)]
        return bool(numbers[0] == numbers[1])

    def _does_alike(self, wanted: ir.Operation, op: ir.Operation) -> bool:
        """Whether two operations do the same of their operands."""
        if op.name != wanted.name or not self._is_said_alike(wanted, op):
            return False
        if op.name == CONSTANT:
            return True
        if op.block == self.block:
            self.ops.add(op)
        self._left += zip(wanted.operands, op.operands, strict=True)
        return op.name not in CONTROL or self._regions_alike(wanted, op)

    def _regions_alike(self, wanted: ir.Operation, op: ir.Operation) -> bool:
        """Whether the bodies of two loops or branches do the same, operation by operation."""
        for region, other in zip(wanted.regions, op.regions, strict=True):
            blocks = region.blocks[0], other.blocks[0]
            if not self._bind(blocks[0].arguments, blocks[1].arguments):
                return False
            steps = [ops_of(block) for block in blocks]
            if len(steps[0]) != len(steps[1]):
                return False
            for one, two in zip(*steps, strict=True):
                if not self._does_alike(one, two) or not self._bind(one.results, two.results):
                    return False
        return True

    def _bind(self, patterns: Any, values: Any) -> bool:
        """Note which value stands for which of the pattern; whether their shapes fit."""
        for pattern, value in zip(patterns, values, strict=True):
            self._known[pattern] = without_ones(value)[0] if self.rows == 1 else value
            if not self._is_shaped_alike(pattern, value):
                return False
        return True

    def _is_shaped_alike(self, pattern: Value, value: Value) -> bool:
        shapes = shape_of(pattern), shape_of(value)
        if element_of(pattern) != element_of(value) or len(shapes[0]) != len(shapes[1]):
            return False
        sizes = zip(*shapes, strict=True)
        return all(n == m or (n, m) == (self.written, self.rows) for n, m in sizes)

    def _is_one_row(self, pattern: Value, value: Value) -> bool:
        """Whether a value is of the pattern's shape with one row, or without the rows."""
        many, one = shape_of(pattern), shape_of(value)
        return any(
            one == [*many[:d], *left, *many[d + 1 :]]
            for d, size in enumerate(many)
            if size == self.written
            for left in ([1], [])
        )

    def _is_said_alike(self, wanted: ir.Operation, op: ir.Operation) -> bool:
        """Whether the types, attributes and regions of two ops of one name say the same."""
        counts = [(len(each.operands), len(each.results)) for each in (wanted, op)]
        if counts[0] != counts[1]:
            return False
        pairs = list(zip(wanted.results, op.results, strict=True))
        if self.rows == 1 and is_dot_of_one(wanted, op):
            return element_of(pairs[0][0]) == element_of(pairs[0][1])
        if not all(self._is_shaped_alike(one, other) for one, other in pairs):
            return False
        if op.name == CONSTANT:
            return wanted == op or repeat_alike(wanted, op)
        if op.name not in CONTROL:
            bodies = [[str(region.blocks[0]) for region in each.regions] for each in (wanted, op)]
            if bodies[0] != bodies[1]:
                return False
        said = attributes_of(op)
        return attributes_of(wanted) == said or _said_of_rows(wanted, op) == said


def _said_of_rows(wanted: ir.Operation, op: ir.Operation) -> dict[str, ir.Attribute]:
    """The attributes that `wanted` would have on the operands of `op`."""
    info = OpInfo.of(wanted)
    rule = None if info is None else rule_of(info)
    if rule is None or [shape_of(v) for v in wanted.operands] == [shape_of(v) for v in op.operands]:
        return attributes_of(wanted)
    copy = wanted.clone(ip=ir.InsertionPoint(wanted)).operation
    for k, operand in enumerate(op.operands):
        copy.operands[k] = operand
    for result, other in zip(copy.results, op.results, strict=True):
        result.set_type(other.type)
    fit_rows(copy, rule, list(op.operands), list(op.results))
    said = attributes_of(copy)
    copy.erase()
    return said


def _repeats_one(op: ir.Operation, rows: int) -> bool:
    """Whether an op only repeats one row `rows` times: where one row is wanted it does nothing."""
    if op.name != "stablehlo.broadcast_in_dim":
        return False
    before, after = shape_of(op.operands[0]), shape_of(op.results[0])
    if spread_dims(op) != list(range(len(after))):
        return False
    return all(n == m or (n, m) == (1, rows) for n, m in zip(before, after, strict=True))


def is_dot_of_one(wanted: ir.Operation, op: ir.Operation) -> bool:
    """Whether an op is the product `wanted` for a single row: without that batching dimension."""
    if op.name != "stablehlo.dot_general" or wanted.name != op.name:
        return False
    said = [attributes_of(each) for each in (wanted, op)]
    for each in said:
        del each[DOT_NUMBERS]
    if said[0] != said[1]:
        return False
    count = len(dot_sides(wanted)[0][0])
    return any(_is_without(wanted, op, number) for number in range(count))


def _is_without(wanted: ir.Operation, op: ir.Operation, number: int) -> bool:
    """Whether a product is `wanted` without the batching dimensions of this number."""
    for side, (many, one) in enumerate(zip(dot_sides(wanted), dot_sides(op), strict=True)):
        gone = many[0].pop(number)
        shapes = [shape_of(each.operands[side]) for each in (wanted, op)]
        shapes[0].pop(gone)
        left = tuple([[d - (d > gone) for d in dims] for dims in many])
        if shapes[0] != shapes[1] or left != one:
            return False
    return True
