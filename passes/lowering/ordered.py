"""Reductions across devices that XLA has not, or gets wrong.

Maxima and minima of floats are made of integers that have the same order. One device gives NaN
where an operand is NaN. Libraries of collectives compare floats as C does and lose it: XLA's CPU
code, NCCL. So the bits of a float become a signed integer of the same width that keeps the order,
in which NaN is the greatest of a maximum and the least of a minimum: no more bytes, and the same on
every target. As a side effect, -0.0 is less than 0.0.

XLA reduces by sum, product, minimum and maximum, and truth values by `and` and `or`, but not the
bits of integers. Those are exchanged and combined on each device.
"""

from __future__ import annotations

from dtensor.dialect.mlir import Value, ir
from dtensor.passes.lowering.emitter import Emitter, Over
from dtensor.passes.ops.elements import element_kind


def picks_a_float(reduction: str, element: str) -> bool:
    """Whether a reduction picks one of its floats; all these types have NaN in their last code."""
    return reduction in ("max", "min") and element_kind(element)[0] == "float"


def to_keys(value: Value, reduction: str, emitter: Emitter) -> Value:
    """Signed integers in the order of the floats `value`, and beyond all of them for NaN.

    They have as many bits. The reduction is "max" or "min".
    """
    width = element_kind(emitter.element_of(value))[1]
    keys = _flip_negative(emitter.bitcast(value, f"i{width}"), width, emitter)
    highest = (1 << (width - 1)) - 1
    extreme = highest if reduction == "max" else ~highest
    return emitter.select(emitter.compare("NE", value, value), extreme, keys)


def from_keys(keys: Value, floats: ir.Type, emitter: Emitter) -> Value:
    """The values of type `floats` that have these keys; both extremes are codes of NaN."""
    element = emitter.read_type(floats)[1]
    return emitter.bitcast(_flip_negative(keys, element_kind(element)[1], emitter), element)


def _flip_negative(bits: Value, width: int, emitter: Emitter) -> Value:
    """All bits but the sign turned over where it is set: sign and magnitude to two's complement.

    Its own inverse.
    """
    sign = emitter.binary("shift_right_arithmetic", bits, width - 1)
    low = emitter.binary("and", sign, (1 << (width - 1)) - 1)
    return emitter.binary("xor", bits, low)


def all_reduce_bits(value: Value, over: Over, kind: str, emitter: Emitter) -> Value:
    """An all_gather into a new first dimension, which is then reduced."""
    shape, element = emitter.read_type(value.type)
    row = emitter.reshape(value, (1, *shape))
    gathered = emitter.tensor_type((over.parts, *shape), element)
    return emitter.reduced(emitter.all_gather(row, 0, gathered, over), 0, kind)


def reduce_scatter_bits(value: Value, dim: int, over: Over, kind: str, emitter: Emitter) -> Value:
    """An all_to_all of the parts of `dim`, which are then reduced."""
    shape = emitter.shape_of(value)
    moved = emitter.all_to_all(value, (dim, dim), value.type, over)
    rows = emitter.regrouped(moved, dim, over.parts, shape[dim] // over.parts)
    return emitter.reduced(rows, dim, kind)
