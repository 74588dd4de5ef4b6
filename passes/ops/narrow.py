"""Values that were converted from a narrower type, of which shards send elements of that type.

Each element is converted by itself. So what is fetched of a value that was converted is what is
fetched of the value before, converted where it has come to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dtensor.dialect.mlir import Value, ir, made_by
from dtensor.passes.builder import Builder
from dtensor.passes.ops.attributes import element_of, itemsize, splat_number
from dtensor.passes.ops.elements import EXACT, element_kind, float_bits, joins
from dtensor.passes.ops.rule import OpInfo, element_bytes, read_once

_CONVERT = "stablehlo.convert"


@dataclass(frozen=True, slots=True)
class Narrow:
    """A value as conversions of another one.

    Attributes:
        value: what is converted; the value itself, if it is no wider than what it was made of.
        elements: the element types that it is converted to, one after another.
    """

    value: Value
    elements: tuple[str, ...] = ()

    @classmethod
    def of(cls, value: Value) -> Narrow:
        """The narrowest type that a value had on its way through conversions."""
        found, elements = cls(value), tuple[str, ...]()
        while (convert := made_by(_CONVERT, value)) is not None:
            elements = (element_of(value), *elements)
            value = convert.operands[0]
            if itemsize(value) < itemsize(found.value) and joins(element_of(value)):
                found = cls(value, elements)
        return found

    def scalar(self, make: Builder, fill: Value) -> Value | None:
        """The scalar that is converted to `fill` as the value is; None if none is known to be."""
        elements, inner = [element_of(self.value), *self.elements], fill
        while (convert := made_by(_CONVERT, inner)) is not None:
            elements.append(element_of(inner))
            inner = convert.operands[0]
        number = splat_number(inner)
        if number is None or not all(_holds(element, number) for element in elements):
            return None
        type_ = make.tensor_type((), elements[0])
        return make.constant(
            number if element_kind(elements[0])[0] == "float" else int(number), type_
        )

    def widened(self, make: Builder, value: Value) -> Value:
        """What has the elements of `value`, converted likewise."""
        for element in self.elements:
            value = make.convert(value, element)
        return value


def sent_as(operation: ir.Operation, count: int = 0) -> tuple[str, ...]:
    """The element types as which shards send the first operands, as many as there are results.

    With `count`, so many.
    """
    operands = list(operation.operands)[: count or len(operation.results)]
    return tuple([element_of(Narrow.of(operand).value) for operand in operands])


@read_once
def sent_bytes(op: OpInfo) -> float:
    """Bytes of one element of each of these operands, as shards send it."""
    return sum(map(element_bytes, sent_as(op.operation)))


def _holds(element: str, number: float) -> bool:
    """Whether a type is known to hold a number exactly: of fractions, that is not asked."""
    kind, bits = element_kind(element)
    if kind == "float" and bits > 8 and (number == 0 or not math.isfinite(number)):
        return True
    if not number.is_integer() or math.copysign(1.0, number) < 0:
        return False
    if kind == "float":
        return number <= 1 << float_bits(element)[1]
    return kind in EXACT and number < 1 << (bits - (kind == "signed"))
