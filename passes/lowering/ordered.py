"""Maxima and minima of floats across devices, made of integers that have the same order.

One device gives NaN where an operand is NaN. Libraries of collectives compare floats as C does and
lose it: XLA's CPU code, NCCL. So the bits of a float become a signed integer of the same width that
keeps the order, in which NaN is the greatest of a maximum and the least of a minimum: no more
bytes, and the same on every target. As a side effect, -0.0 is less than 0.0.
"""

from __future__ import annotations

from dtensor.dialect.mlir import Value, ir
from dtensor.passes.lowering.emitter import Emitter
from dtensor.passes.ops.elements import element_kind


def is_ordered(reduction: str, element: str) -> bool:
    """Whether a reduction picks one of its floats; all these types have NaN in their last code."""
    return reduction in ("max", "min") and element_kind(element)[0] == "float"


def to_keys(value: Value, reduction: str, emitter: Emitter) -> Value:
    """Signed integers in the order of the floats `value`, and beyond all of them for NaN.

    Args:
        value: floats of n bits.
        reduction: "max" or "min".
        emitter: creates the operations.

    Returns:
        Integers of n bits, of the same shape.
    """
    shape, element = emitter.read_type(value.type)
    width = element_kind(element)[1]
    integers = emitter.tensor_type(shape, f"i{width}")
    keys = _flip_negative(_bits(value, integers, emitter), width, emitter)
    highest = (1 << (width - 1)) - 1
    extreme = emitter.constant(highest if reduction == "max" else ~highest, integers)
    return emitter.select(emitter.compare("NE", value, value), extreme, keys)


def from_keys(keys: Value, floats: ir.Type, emitter: Emitter) -> Value:
    """The values of type `floats` that have these keys; both extremes are codes of NaN."""
    width = element_kind(emitter.read_type(floats)[1])[1]
    return _bits(_flip_negative(keys, width, emitter), floats, emitter)


def _flip_negative(bits: Value, width: int, emitter: Emitter) -> Value:
    """All bits but the sign turned over where it is set: sign and magnitude to two's complement.

    Its own inverse.
    """
    last, rest = width - 1, (1 << (width - 1)) - 1
    sign = emitter.binary("shift_right_arithmetic", bits, emitter.constant_like(last, bits))
    low = emitter.binary("and", sign, emitter.constant_like(rest, bits))
    return emitter.binary("xor", bits, low)


def _bits(value: Value, result: ir.Type, emitter: Emitter) -> Value:
    return emitter.value("stablehlo.bitcast_convert", [value], result)
