"""What is computed of tensors element by element, written as what is computed of one of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dtensor.dialect.mlir import ir, maker_of
from dtensor.passes.builder import Trail, integers_attr
from dtensor.passes.ops.attributes import CONSTANT, integers, shape_of, splat_of
from dtensor.passes.ops.elementwise import convert_rule, elementwise_rule
from dtensor.passes.ops.table import opdef

Value = ir.Value[Any]
_LIMITS = "limit_indices"


def is_scalar_work(op: ir.Operation) -> bool:
    """Whether an op computes each element by itself, of the elements at the same place."""
    return opdef(op.name).rule in (elementwise_rule, convert_rule) and not len(op.regions)


def is_constant(op: ir.Operation) -> bool:
    """Whether an op is a constant."""
    return op.name == CONSTANT


def is_said_alike(one: ir.Operation, other: ir.Operation, rows: int, wanted: int) -> bool:
    """Whether two ops of one name do the same, one on some rows, the other on as many as wanted."""
    shapes = [shape_of(op.results[0]) for op in (one, other)]
    if len(shapes[0]) != len(shapes[1]):
        return False
    if any(n != m and (n, m) != (rows, wanted) for n, m in zip(*shapes, strict=True)):
        return False
    said = [attributes_of(op) for op in (one, other)]
    for op, each in zip((one, other), said, strict=True):
        if _LIMITS in each:  # up to the end, wherever that is
            ends = zip(integers(each[_LIMITS]), shape_of(op.operands[0]), strict=True)
            each[_LIMITS] = integers_attr([-1 if n == size else n for n, size in ends])
    bodies = [[str(region.blocks[0]) for region in op.regions] for op in (one, other)]
    return said[0] == said[1] and bodies[0] == bodies[1]


@dataclass
class Scalars:
    """Writes a body of scalars.

    Attributes:
        make: creates what is written.
        known: the scalars of tensors that are given.
        other: that of any tensor that is neither given nor computed element by element.
    """

    make: Trail
    known: dict[Value, Value] = field(default_factory=dict)
    other: Value | None = None

    def of(self, value: Value) -> Value:
        """The scalar that stands for a value."""
        if value not in self.known:
            self.known[value] = self._made(value)
        return self.known[value]

    def _made(self, value: Value) -> Value:
        type_ = self.make.tensor_type((), self.make.element_of(value))
        number = splat_of(value)
        if number is not None:
            return self.make.dense(ir.DenseElementsAttr.get_splat(type_, number), type_)
        maker = maker_of(value)
        assert maker is not None, "a value that was found to be computed element by element"
        if not is_scalar_work(maker):
            assert self.other is not None
            return self.other
        operands = [self.of(operand) for operand in maker.operands]
        return self.make.value(maker.name, operands, type_, attributes_of(maker))


def attributes_of(op: ir.Operation) -> dict[str, ir.Attribute]:
    """The attributes of an op that belong to it."""
    return {name: op.attributes[name] for name in op.attributes if not name.startswith("dtensor.")}
