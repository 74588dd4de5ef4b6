"""Values from the other end: what a value is if its last row comes first.

What is computed of each row by itself may be computed of rows in any order. So reversals move in
front of it, where they meet others and are gone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dtensor.dialect.mlir import Value, ir, maker_of, operation_of
from dtensor.passes.builder import Builder
from dtensor.passes.ops.attributes import (
    CONSTANT,
    element_of,
    integer,
    integers,
    is_marked,
    shape_of,
    size_bytes,
    splat_of,
)
from dtensor.passes.ops.elements import holds_places
from dtensor.passes.ops.rows import IOTA
from dtensor.passes.ops.rule import OpInfo
from dtensor.passes.ops.table import opdef, rule_of
from dtensor.passes.program import CONTROL, CUSTOM_CALL, never_changed
from dtensor.passes.rewriting.names import BROADCAST, REVERSE
from dtensor.passes.rewriting.rewriting import Rewriting
from dtensor.passes.rewriting.shards import At

_DEEPEST = 64  # operations one behind the other

Leaves = dict[At, None]  # what is reversed, and along which dimension


def is_plain(op: ir.Operation) -> bool:
    """Whether an operation does nothing but give one value, by what StableHLO says of it."""
    if len(op.results) != 1 or op.name in CONTROL or op.name == CUSTOM_CALL or is_marked(op):
        return False
    return op.name.startswith(("stablehlo.", "chlo.")) and not opdef(op.name).varies


def rows_read(op: ir.Operation, dim: int) -> dict[int, int] | None:
    """What an operation reads to compute each row of its result by itself, wherever it stands.

    Args:
        op: the operation.
        dim: the dimension of its result along which rows follow each other.

    Returns:
        By operand, the dimension along which its rows follow each other; not of operands that are
        the same for all rows. None if rows are not computed by themselves.
    """
    info = OpInfo.of(op) if is_plain(op) else None
    rule = None if info is None else rule_of(info)
    factor = None if rule is None else rule.passed_on(~0, dim)
    if rule is None or factor is None:
        return None
    places = rule.dims_of_factor[factor]
    found = {k: d for k, d in places if k >= 0}
    is_each = all(rule.passed_on(*place) == factor for place in places)
    if not is_each or len(places) != len(found) + 1:
        return None
    return found if found or op.name == BROADCAST else None


def reversed_dims(op: ir.Operation) -> list[int]:
    """The dimensions that an operation reverses; none of others."""
    return integers(op.attributes["dimensions"]) if op.name == REVERSE else []


@dataclass
class ReversedValues:
    """Finds, and writes, values whose rows are in the other order.

    Attributes:
        function: where they stand.
        given: those that will be there anyway; None until they are.
        met: the reversals that it goes past.
    """

    function: Rewriting
    given: dict[At, Value | None] = field(default_factory=dict)
    met: dict[Value, None] = field(default_factory=dict)
    _leaves: dict[At, Leaves] = field(default_factory=dict)

    def leaves(self, value: Value, dim: int, depth: int = 0) -> Leaves:
        """What is reversed for a value with its rows in the other order."""
        at = (value, dim)
        if at not in self._leaves:
            self._leaves[at] = {} if at in self.given else self._found(value, dim, depth)
        return self._leaves[at]

    def _found(self, value: Value, dim: int, depth: int) -> Leaves:
        op, outside = maker_of(value), never_changed(value)
        if splat_of(value) is not None or (op is not None and _is_numbers(op)):
            return {}
        if outside is not None:
            return self.leaves(outside, dim, depth)
        if op is not None and dim in reversed_dims(op):
            self.met[value] = None
            return {}
        read = rows_read(op, dim) if op is not None and depth < _DEEPEST else None
        if op is None or read is None:
            return {(value, dim): None}
        found: Leaves = {}
        for k, d in read.items():
            found |= self.leaves(op.operands[k], d, depth + 1)
        return found if bytes_of(found) <= size_bytes(value) else {(value, dim): None}

    def of(self, value: Value, dim: int, before: ir.Operation) -> Value:
        """A value with its rows in the other order, in front of an operation."""
        at = (value, dim)
        found = self.given.get(at)
        if found is None:
            found = self.given[at] = self._written(value, dim, before)
        return found

    def _written(self, value: Value, dim: int, before: ir.Operation) -> Value:
        make, outside = Builder(before, self.function.made), never_changed(value)
        if splat_of(value) is not None:
            return value
        if (value, dim) in self.leaves(value, dim):
            return self.reversed(make, value, dim)
        if outside is not None:
            return self.of(outside, dim, before)
        op = operation_of(value)
        if dim in reversed_dims(op):
            return self._but(make, op.operands[0], op, dim)
        if _is_numbers(op):
            return _numbers(make, op, dim)
        read = rows_read(op, dim)
        assert read is not None, "a value that is reversed where it is computed of others"
        if not read:
            return value
        operands = [
            self.of(operand, read[k], before) if k in read else operand
            for k, operand in enumerate(op.operands)
        ]
        result: Value = make.again(op, operands).results[0]
        self.function.shards.stands_for(result, value)
        return result

    def unreversed(self, value: Value, dim: int, before: ir.Operation) -> Value:
        """What was reversed, of what it is reversed of in the other order."""
        op, make = operation_of(value), Builder(before, self.function.made)
        return self._but(make, self.of(op.operands[0], dim, before), op, dim)

    def _but(self, make: Builder, value: Value, op: ir.Operation, dim: int) -> Value:
        """A value that is reversed as an operation says, but for one dimension."""
        for d in reversed_dims(op):
            value = value if d == dim else self.reversed(make, value, d)
        return value

    def reversed(self, make: Builder, value: Value, dim: int) -> Value:
        """A value that is reversed."""
        found = make.reversed(value, dim)
        self.function.shards.stands_for(found, value)
        return found


def bytes_of(leaves: Leaves) -> float:
    """Bytes of all that is reversed."""
    return sum(size_bytes(value) for value, _ in leaves)


def _is_numbers(op: ir.Operation) -> bool:
    """Whether an operation gives numbers that each device knows."""
    return op.name in (CONSTANT, IOTA)


def _numbers(make: Builder, op: ir.Operation, dim: int) -> Value:
    """Such numbers, with their rows in the other order."""
    value: Value = op.results[0]
    if op.name == IOTA:
        if integer(op.attributes["iota_dimension"]) != dim:
            return value
        size = shape_of(value)[dim]
        if holds_places(element_of(value), size):
            return make.binary("subtract", size - 1, value)
    return make.reversed(value, dim)
