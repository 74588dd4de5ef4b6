"""Maxima and minima of floats across devices, made of integers that have the same order.

One device gives NaN where an operand is NaN. Libraries of collectives compare floats as C does and
lose it: XLA's CPU code, NCCL. So the bits of a float become a signed integer of the same width that
keeps the order, in which NaN is the greatest of a maximum and the least of a minimum: no more
bytes, and the same on every target. As a side effect, -0.0 is less than 0.0.
"""

from __future__ import annotations

from typing import Any

from dtensor.dialect.mlir import ir
from dtensor.passes.lowering.emitter import Emitter
from dtensor.passes.ops.elements import element_kind

_NOT_EQUAL = "#stablehlo<comparison_direction NE>"


def is_ordered(reduction: str, element: ir.Type) -> bool:
    """Whether a reduction picks one of its floats; all these types have NaN in their last code."""
    return reduction in ("max", "min") and element_kind(str(element))[0] == "float"


def to_keys(value: ir.Value[Any], reduction: str, emitter: Emitter) -> ir.Value[Any]:
    """Signed integers in the order of the floats `value`, and beyond all of them for NaN.

    Args:
        value: floats of n bits.
        reduction: "max" or "min".
        emitter: creates the operations.

    Returns:
        Integers of n bits, of the same shape.
    """
    shape, element = emitter.tensor(value.type)
    width = element_kind(str(element))[1]
    integers = emitter.tensor_type(shape, ir.IntegerType.get_signless(width))
    keys = _flip_negative(_bits(value, integers, emitter), width, emitter)
    highest = (1 << (width - 1)) - 1
    extreme = _constant(highest if reduction == "max" else ~highest, integers, emitter)
    truth = emitter.tensor_type(shape, ir.IntegerType.get_signless(1))
    attributes = {"comparison_direction": ir.Attribute.parse(_NOT_EQUAL)}
    is_nan = emitter.create("stablehlo.compare", [value, value], [truth], attributes).results[0]
    return _value("stablehlo.select", [is_nan, extreme, keys], integers, emitter)


def from_keys(keys: ir.Value[Any], floats: ir.Type, emitter: Emitter) -> ir.Value[Any]:
    """The values of type `floats` that have these keys; both extremes are codes of NaN."""
    width = element_kind(str(emitter.tensor(floats)[1]))[1]
    return _bits(_flip_negative(keys, width, emitter), floats, emitter)


def _flip_negative(bits: ir.Value[Any], width: int, emitter: Emitter) -> ir.Value[Any]:
    """All bits but the sign turned over where it is set: sign and magnitude to two's complement.

    Its own inverse.
    """
    sign = _binary("shift_right_arithmetic", bits, width - 1, emitter)
    low = _binary("and", sign, (1 << (width - 1)) - 1, emitter)
    return _value("stablehlo.xor", [bits, low], bits.type, emitter)


def _bits(value: ir.Value[Any], result: ir.Type, emitter: Emitter) -> ir.Value[Any]:
    return _value("stablehlo.bitcast_convert", [value], result, emitter)


def _binary(name: str, value: ir.Value[Any], number: int, emitter: Emitter) -> ir.Value[Any]:
    operands = [value, _constant(number, value.type, emitter)]
    return _value(f"stablehlo.{name}", operands, value.type, emitter)


def _constant(number: int, type_: ir.Type, emitter: Emitter) -> ir.Value[Any]:
    scalar = ir.IntegerAttr.get(emitter.tensor(type_)[1], number)
    attributes: dict[str, ir.Attribute] = {"value": ir.DenseElementsAttr.get_splat(type_, scalar)}
    result: ir.Value[Any] = emitter.create("stablehlo.constant", [], [type_], attributes).results[0]
    return result


def _value(
    name: str, operands: list[ir.Value[Any]], type_: ir.Type, emitter: Emitter
) -> ir.Value[Any]:
    result: ir.Value[Any] = emitter.create(name, operands, [type_]).results[0]
    return result
