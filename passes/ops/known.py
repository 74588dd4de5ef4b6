"""What is known of the numbers in a value, from the operations that made it.

A part of a sum may be zero where the sum is not. So an infinity must not multiply parts, and a zero
must not divide them: 0 times infinity is NaN. Nothing is known of arguments and of what is computed
from them; a NaN does no harm, for it gives NaN on parts and on their sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dtensor.dialect.mlir import Value, ir, maker_of
from dtensor.dialect.names import RELAYOUT
from dtensor.passes.ops.attributes import CONSTANT, constant_numbers, element_of, splat_number
from dtensor.passes.ops.elements import element_kind, holds_floats, reaches_integers

_DEPTH = 8  # operations that are followed back

# Of these the numbers are those of these operands, signs aside.
MOVES = {
    RELAYOUT: slice(1),
    "stablehlo.broadcast_in_dim": slice(1),
    "stablehlo.concatenate": slice(None),
    "stablehlo.convert": slice(1),  # if its type can hold them
    "stablehlo.dynamic_update_slice": slice(2),
    "stablehlo.negate": slice(1),
    "stablehlo.reshape": slice(1),
    "stablehlo.reverse": slice(1),
    "stablehlo.select": slice(1, 3),
    "stablehlo.slice": slice(1),
    "stablehlo.transpose": slice(1),
}

# Of these no result is infinite, whatever is given to them.
_BOUNDED = frozenset(
    (
        "chlo.erf",
        "chlo.erfc",
        "stablehlo.cosine",
        "stablehlo.logistic",
        "stablehlo.sign",
        "stablehlo.sine",
        "stablehlo.tanh",
    )
)


# Of these the result is zero, and no negative one, where all that is read is.
ZERO_OF_ZEROS = frozenset(
    (
        "stablehlo.abs",
        "stablehlo.add",
        "stablehlo.and",
        "stablehlo.convert",
        "stablehlo.maximum",
        "stablehlo.minimum",
        "stablehlo.multiply",
        "stablehlo.or",
        "stablehlo.sqrt",
        "stablehlo.subtract",
        "stablehlo.tanh",
        "stablehlo.xor",
    )
)
# So it is where the others are, and the operand at one of these places is a positive number.
_BY_NUMBERS = {"stablehlo.divide": (1,), "stablehlo.multiply": (0, 1)}


def zero_of_zeros(op: ir.Operation, others: Mapping[int, Value]) -> bool:
    """Whether an element-wise op gives zero where all that it reads is, but for some operands."""
    if not others:
        return op.name in ZERO_OF_ZEROS
    places = _BY_NUMBERS.get(op.name, ())
    numbers = [splat_number(value) for value in others.values()]
    is_scale = len(others) == 1 and all(place in places for place in others)
    return is_scale and all(number is not None and 0 < number < math.inf for number in numbers)


def never_infinite(value: Value) -> bool:
    """Whether it is known that no element is infinite; of integers it always is."""
    return _is_known(_FINITE, value, _DEPTH)


def never_zero(value: Value) -> bool:
    """Whether it is known that no element is zero."""
    return _is_known(_NOT_ZERO, value, _DEPTH)


@dataclass(frozen=True)
class _Fact:
    """Something that holds of x if it does of -x.

    Attributes:
        holds: whether it holds of the numbers in a constant.
        makers: operations on floats whose results it holds of, whatever they read.
        of_integers: whether it always holds of integers.
    """

    holds: Callable[[NDArray[np.inexact]], bool]
    makers: frozenset[str] = frozenset()
    of_integers: bool = False


_FINITE = _Fact(lambda numbers: not np.isinf(numbers).any(), _BOUNDED, of_integers=True)
_NOT_ZERO = _Fact(lambda numbers: bool((numbers != 0).all()))


def _is_known(fact: _Fact, value: Value, depth: int) -> bool:
    """Whether a fact is known of all numbers in a value; `depth` operations are followed back."""
    if fact.of_integers and _holds_integers(value):
        return True
    maker = maker_of(value) if depth else None
    name = "" if maker is None else maker.name
    if maker is None or not (name in MOVES or name in fact.makers or name == CONSTANT):
        return False
    if name == CONSTANT:
        numbers = constant_numbers(maker)
        return numbers is not None and fact.holds(numbers)
    if name in fact.makers:
        return element_kind(element_of(value))[0] == "float"
    if name == "stablehlo.convert" and not _keeps(maker, element_of(value)):
        return False
    read = list(maker.operands)[MOVES[name]]
    return all([_is_known(fact, operand, depth - 1) for operand in read])


def _keeps(convert: ir.Operation, after: str) -> bool:
    """Whether a conversion makes no infinity and no zero."""
    before = element_of(convert.operands[0])
    return holds_floats(before, after) or reaches_integers(after, before)


def _holds_integers(value: Value) -> bool:
    type_ = value.type
    return isinstance(type_, ir.ShapedType) and isinstance(type_.element_type, ir.IntegerType)
