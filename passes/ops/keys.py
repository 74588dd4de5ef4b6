"""Integers whose order is that of other numbers, where a body compares them as JAX does."""

from __future__ import annotations

import math

from dtensor.dialect.mlir import Value, ir, made_by, maker_of, terminator
from dtensor.passes.builder import Builder
from dtensor.passes.ops.attributes import direction_of, element_of, splat_number
from dtensor.passes.ops.elements import INTEGERS, element_kind, float_bits

_FLOATS = ("f16", "bf16", "f32", "f64")


def orders(body: ir.Block) -> str | None:
    """How a body of two scalars orders them: "up" or "down"; None where its order has no keys.

    Integers are compared as they are. Of floats zeros are equal, and so are NaNs, which stand
    behind all numbers that are ordered upwards.
    """
    compare = made_by("stablehlo.compare", terminator(body).operands[0])
    if compare is None or len(body.arguments) != 2:
        return None
    direction = direction_of(compare)
    element = element_of(body.arguments[0])
    kind = element_kind(element)[0]
    sides = list(compare.operands)
    if element in _FLOATS:
        if "TOTALORDER" not in str(compare.attributes.get("compare_type")):
            return None  # FLOAT, which need not be written: NaN is neither before nor behind
        sides = [side for value in sides if (side := _canonical(value)) is not None]
    elif kind not in INTEGERS:
        return None
    is_turned = sides == list(body.arguments)[::-1]
    if not is_turned and sides != list(body.arguments):
        return None
    is_up = (direction == "LT") != is_turned
    return None if "E" in direction else ("up" if is_up else "down")


def _canonical(value: Value) -> Value | None:
    """x, if the value is x with one zero and one NaN."""
    for number in (math.nan, 0.0):
        choice = made_by("stablehlo.select", value)
        if choice is None:
            return None
        test, fixed, value = choice.operands
        compare = made_by("stablehlo.compare", test)
        is_nan = math.isnan(number)
        if compare is None or not _is_number(fixed, number):
            return None
        if direction_of(compare) != ("NE" if is_nan else "EQ"):
            return None
        left, right = compare.operands
        inner = _unchanged(value) if is_nan else value
        if left != inner or not (right == inner if is_nan else _is_number(right, 0.0)):
            return None
    return value


def _unchanged(value: Value) -> Value:
    """What a choice leaves where it does not put a constant."""
    maker = maker_of(value)
    given = list(maker.operands) if maker is not None else []
    return given[2] if len(given) == 3 else value


def _is_number(value: Value, number: float) -> bool:
    found = splat_number(value)
    return found is not None and (found == number or (math.isnan(found) and math.isnan(number)))


def keys_of(make: Builder, value: Value, is_up: bool) -> Value:
    """Unsigned integers of as many bits; the smaller stands first."""
    kind, bits = element_kind(make.element_of(value))
    if kind == "float":
        value = make.select(make.compare("EQ", value, 0.0), 0.0, value)
        value = make.select(make.compare("NE", value, value), math.nan, value)
    key = bits_of(make, value)
    if kind != "unsigned":
        sign = 1 << (bits - 1)
        mixed = make.binary("xor", key, sign)
        if kind == "float":
            is_negative = make.compare("GE", key, sign)
            mixed = make.select(is_negative, inverted(make, key), mixed)
        key = mixed
    return key if is_up else inverted(make, key)


class Codes:
    """Unsigned integers in the order of numbers; of equal ones, in that of their places.

    Floats are equal to a body where both are zero, or both NaN; which of them comes first is seen
    by their signs alone. A number whose bits are `a` without its sign becomes `most - a` or
    `most + 2 n - 1 + a`, if `most` are those of infinity. In between stand two codes for each of
    `n` places, of zeros of either sign. As many of NaNs, whose other bits are lost, stand behind
    all that, or ahead where the order is down. The largest integer is the code of no float.
    """

    def __init__(self, element: str, count: int, is_up: bool) -> None:
        """Of numbers of an element type, at so many places, ordered up or down."""
        self.given, self.is_up = element, is_up
        kind, self.bits = element_kind(element)
        self.is_float, wide = kind == "float", self.bits
        self.sign = kind != "unsigned" and 1 << (self.bits - 1)
        if self.is_float:
            exponent, mantissa = float_bits(element)
            self.nan, self.most = 1 << (mantissa - 1), ((1 << exponent) - 1) << mantissa
            while 2 * self.most + 4 * count >= 1 << wide:
                wide *= 2
            nans = 0 if is_up else 2 * count  # that stand ahead
            self.zeros, self.above = nans + self.most, nans + self.most + 2 * count
            self.nans = self.above + self.most if is_up else 0
        self.bits_of_code = wide

    @property
    def element(self) -> str:
        """The element type of the integers."""
        return f"ui{self.bits_of_code}"

    def of(self, make: Builder, value: Value, place: Value) -> Value:
        """The codes of numbers at places, which are of the element type of codes."""
        if not self.is_float:
            return keys_of(make, value, self.is_up)
        raw = bits_of(make, value)
        is_negative = make.compare("GE", raw, self.sign)
        size = make.convert(make.modulo(raw, self.sign), self.element)
        own = make.select(is_negative, 1, make.zeros(size.type))
        own = make.binary("add", make.times(place, 2), own)
        low = make.binary("subtract", self.zeros, size)
        high = self._raised(make, size, self.above - 1)
        code = make.select(is_negative, *((low, high) if self.is_up else (high, low)))
        code = make.select(make.compare("EQ", size, 0), self._raised(make, own, self.zeros), code)
        is_nan = make.compare("GT", size, self.most)
        return make.select(is_nan, self._raised(make, own, self.nans), code)

    def numbers(self, make: Builder, code: Value) -> Value:
        """The numbers that have these codes."""
        if not self.is_float:
            raw = code if self.is_up else inverted(make, code)
            if self.sign:
                raw = make.binary("xor", raw, self.sign)
            return make.bitcast(raw, self.given)
        is_low = make.compare("LT", code, self.zeros)
        is_high = make.compare("GE", code, self.above)
        is_nan = (
            make.compare("GE", code, self.nans)
            if self.is_up
            else make.compare("LT", code, self.zeros - self.most)
        )
        low = make.binary("subtract", self.zeros, code)
        high = make.binary("subtract", code, self.above - 1)
        size = make.select(is_low, low, make.select(is_high, high, 0))
        size = make.select(is_nan, self.most + self.nan, size)
        is_odd = make.compare("EQ", make.modulo(code, 2), 1)
        is_zero = make.compare("EQ", size, 0)
        is_own = make.binary("or", is_nan, is_zero)
        is_negative = make.select(is_own, is_odd, is_low if self.is_up else is_high)
        size = make.convert(size, f"ui{self.bits}")
        signed = make.binary("or", size, self.sign)
        return make.bitcast(make.select(is_negative, signed, size), self.given)

    def _raised(self, make: Builder, value: Value, number: int) -> Value:
        return make.binary("add", value, number) if number else value


def bits_of(make: Builder, value: Value) -> Value:
    """The bits of numbers, as unsigned integers."""
    return make.bitcast(value, f"ui{element_kind(make.element_of(value))[1]}")


def inverted(make: Builder, value: Value) -> Value:
    """Integers, every bit of which is the other one."""
    return make.unary("not", value)
