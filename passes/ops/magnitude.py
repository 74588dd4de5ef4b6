"""How large the numbers are that a program computes of constants: products, quotients and roots.

JAX scales a Fourier transform by `1 / sqrt(prod(lengths))`, which it computes in complex numbers.
"""

from __future__ import annotations

import math

import numpy as np

from dtensor.dialect.mlir import Value, ir, maker_of
from dtensor.passes.ops.attributes import (
    CONSTANT,
    constant_numbers,
    element_of,
    elements_of,
    shape_of,
)
from dtensor.passes.ops.combiners import combiner
from dtensor.passes.ops.elements import real_element
from dtensor.passes.ops.known import MOVES, ZERO_OF_ZEROS
from dtensor.passes.ops.reduction import Reduction

_DEEPEST = 12  # operations one behind the other
_LARGEST = 2.0**40  # its square and inverse are far from what f32 cannot hold, if rounded too

Range = tuple[float, float]  # the least and the largest

# Of these the result is zero where all that is read is; it may be a negative one.
_SIGNED_ZEROS = ZERO_OF_ZEROS | {
    "stablehlo.complex",
    "stablehlo.imag",
    "stablehlo.negate",
    "stablehlo.real",
}


def zero_where(op: ir.Operation) -> list[list[int]]:
    """Operands of an element-wise op: where all of one of these groups are zero, so is the result.

    It may be a negative zero.
    """
    match op.name:
        case "stablehlo.multiply":
            return [[0, 1], *([k] for k in (0, 1) if magnitude(op.operands[1 - k]) is not None)]
        case "stablehlo.divide":
            found = magnitude(op.operands[1])
            return [] if found is None or found[0] == 0 else [[0]]
        case "stablehlo.select":
            return [[1, 2]]
    return [[*range(len(op.operands))]] if op.name in _SIGNED_ZEROS else []


def magnitude(value: Value, depth: int = _DEEPEST) -> Range | None:
    """Between which numbers the absolute values of all elements are, but for rounding.

    None if that is not known, or some may be infinite or no number.
    """
    op = maker_of(value) if depth else None
    is_wide = isinstance(value.type, ir.RankedTensorType) and (
        real_element(element_of(value)) in ("f32", "f64")
    )
    found = _of_result(op, depth - 1) if op is not None and is_wide else None
    if found is None or not (found[0] == 0 or found[0] > 1 / _LARGEST) or found[1] > _LARGEST:
        return None
    return found


def _of_result(op: ir.Operation, depth: int) -> Range | None:
    if op.name == CONSTANT:
        numbers = constant_numbers(op)
        if numbers is None or not numbers.size or not np.isfinite(numbers).all():
            return None
        sizes = np.abs(numbers)
        return float(sizes.min()), float(sizes.max())
    is_known = op.name in _COMPUTED or op.name in MOVES
    read = list(op.operands)[MOVES.get(op.name, slice(None))] if is_known else []
    given = [found for value in read if (found := magnitude(value, depth)) is not None]
    if not read or len(given) < len(read):
        return None
    if op.name in MOVES:
        return min(low for low, _ in given), max(high for _, high in given)
    return _computed(op, given)


_MULTIPLY, _DIVIDE, _SQRT, _REDUCE = _COMPUTED = (
    "stablehlo.multiply",
    "stablehlo.divide",
    "stablehlo.sqrt",
    "stablehlo.reduce",
)


def _computed(op: ir.Operation, given: list[Range]) -> Range | None:
    (low, high), (other_low, other_high) = given[0], given[-1]
    if op.name == _MULTIPLY:
        return low * other_low, high * other_high
    if op.name == _DIVIDE:
        return (low / other_high, high / other_low) if other_low else None
    if op.name == _SQRT:  # of a negative real number there is none
        is_complex = element_of(op.results[0]) != real_element(element_of(op.results[0]))
        return (math.sqrt(low), math.sqrt(high)) if is_complex else None
    if len(given) != 2 or combiner(op.regions[0]) is not Reduction.PROD:
        return None
    result = op.results[0]
    count = elements_of(op.operands[0]) // max(elements_of(result), 1)
    if not shape_of(op.operands[0]) or not 0 < count <= _DEEPEST:
        return None
    return low**count * other_low, high**count * other_high
