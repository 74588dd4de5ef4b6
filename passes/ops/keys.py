"""Integers whose order is that of other numbers, where a body compares them as JAX does."""

from __future__ import annotations

import math

from dtensor.dialect.mlir import Value, ir, made_by, maker_of, terminator
from dtensor.passes.builder import Builder
from dtensor.passes.ops.attributes import element_of, splat_number
from dtensor.passes.ops.elements import element_kind

_FLOATS = ("f16", "bf16", "f32", "f64")


def orders(body: ir.Block) -> str | None:
    """How a body of two scalars orders them: "up" or "down"; None where its order has no keys.

    Integers are compared as they are. Of floats zeros are equal, and so are NaNs, which stand
    behind all numbers that are ordered upwards.
    """
    compare = made_by("stablehlo.compare", terminator(body).operands[0])
    if compare is None or len(body.arguments) != 2:
        return None
    direction = str(compare.attributes["comparison_direction"])
    element = element_of(body.arguments[0])
    kind = element_kind(element)[0]
    sides = list(compare.operands)
    if element in _FLOATS:
        if "TOTALORDER" not in str(compare.attributes.get("compare_type")):
            return None  # FLOAT, which need not be written: NaN is neither before nor behind
        sides = [side for value in sides if (side := _canonical(value)) is not None]
    elif kind not in ("signed", "unsigned"):
        return None
    is_turned = sides == list(body.arguments)[::-1]
    if not is_turned and sides != list(body.arguments):
        return None
    is_up = ("LT" in direction) != is_turned
    return None if "E" in direction.partition(" ")[2] else ("up" if is_up else "down")


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
        if ("NE" if is_nan else "EQ") not in str(compare.attributes["comparison_direction"]):
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
        zero = make.constant(0.0, value.type)
        value = make.select(make.compare("EQ", value, zero), zero, value)
        nan = make.constant(math.nan, value.type)
        value = make.select(make.compare("NE", value, value), nan, value)
    key = bits_of(make, value)
    if kind != "unsigned":
        sign = make.constant_like(1 << (bits - 1), key)
        mixed = make.binary("xor", key, sign)
        if kind == "float":
            is_negative = make.compare("GE", key, sign)
            mixed = make.select(is_negative, turned(make, key), mixed)
        key = mixed
    return key if is_up else turned(make, key)


def bits_of(make: Builder, value: Value) -> Value:
    """The bits of numbers, as unsigned integers."""
    return make.bitcast(value, f"ui{element_kind(make.element_of(value))[1]}")


def turned(make: Builder, value: Value) -> Value:
    """Integers, every bit of which is the other one."""
    return make.value("stablehlo.not", [value], value.type)
