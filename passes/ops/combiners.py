"""What the body of a reduction does with each pair of its arguments.

Whether it gives the same of two elements in either order, rounding aside, is computed in a finite
field, of random arguments and of those swapped. Sums, products and quotients are what they are
there, so that two ways to write one fraction agree; what else there is becomes a random number of
its name and its operands.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from fractions import Fraction

from dtensor.dialect.mlir import Value, ir, ops_of
from dtensor.passes.ops.attributes import CONSTANT, direction_of, element_of, splat_number
from dtensor.passes.ops.elements import INEXACT, element_kind
from dtensor.passes.ops.reduction import Reduction, reductions_of
from dtensor.passes.ops.rule import OpInfo, read_once
from dtensor.passes.program import RETURNS


def combiners(region: ir.Region) -> tuple[Reduction, ...] | None:
    """The reduction by which a combiner body joins each of its pairs of arguments.

    Args:
        region: a body `(a0.. an-1, b0.. bn-1) -> (r0.. rn-1)`.

    Returns:
        One reduction per value, `ri = ai op bi` in either order; None for any other body.
    """
    block = region.blocks[0]
    count = len(block.arguments) // 2
    operations = ops_of(block)
    if len(operations) != count + 1:
        return None
    numbers: dict[Value, int] = {argument: i for i, argument in enumerate(block.arguments)}
    kinds: dict[Value, tuple[str, int]] = {}
    for operation in operations[:-1]:
        sides = sorted(numbers.get(v, -1) for v in operation.operands)
        if len(sides) != 2 or sides[0] + count != sides[1] or sides[0] < 0:
            return None
        kinds[operation.results[0]] = (operation.name, sides[0])
    found = []
    for i, value in enumerate(operations[-1].operands):
        name, pair = kinds.get(value, ("", -1))
        element = element_of(block.arguments[i])
        reduction = Reduction.of_op(name, element)
        if pair != i or reduction not in reductions_of(element):
            return None
        assert reduction is not None
        found.append(reduction)
    return tuple(found)


def combiner(region: ir.Region) -> Reduction | None:
    """The one reduction by which a combiner body joins all its pairs; None if there is not one."""
    kinds = combiners(region)
    return kinds[0] if kinds and len(set(kinds)) == 1 else None


@read_once
def combined(op: OpInfo) -> Reduction | None:
    """The one reduction by which the body of a reduce joins all its pairs; None if not one."""
    return combiner(op.operation.regions[0])


@read_once
def is_either_way(op: OpInfo) -> bool:
    """Whether the body of a reduce is seen to give the same of two elements in either order."""
    return commutes(op.operation.regions[0], len(op.result_shapes))


_PRIME = (1 << 61) - 1
_EITHER_WAY = ("maximum", "minimum", "and", "or", "xor", "add", "multiply")
_TURNED = {"GT": "LT", "GE": "LE"}


def commutes(region: ir.Region, count: int) -> bool:
    """Whether the body gives the same of two elements in either order; False if that is not seen.

    Args:
        region: a body `(a0.. an-1, b0.. bn-1) -> (r0.. rn-1)`.
        count: n.
    """
    numbers = [_random("argument", k) for k in range(2 * count)]
    body = region.blocks[0]
    found = _evaluated(body, numbers)
    return found is not None and found == _evaluated(body, numbers[count:] + numbers[:count])


def _random(*what: object) -> int:
    digest = hashlib.blake2b(repr(what).encode(), digest_size=16).digest()
    return int.from_bytes(digest, "big") % _PRIME


def _number(value: Value) -> int | None:
    """A small number that a constant repeats."""
    number = splat_number(value)
    if number is None or not math.isfinite(number) or abs(number) > 1 << 31:
        return None
    fraction = Fraction(number)
    return fraction.numerator * pow(fraction.denominator, -1, _PRIME) % _PRIME


def _evaluated(block: ir.Block, numbers: Sequence[int]) -> list[int] | None:
    """What the body gives; None where it reads values from outside, or has regions."""
    known: dict[Value, int] = dict(zip(block.arguments, numbers, strict=True))
    for place, op in enumerate(ops_of(block)):
        if len(op.regions) or any(value not in known for value in op.operands):
            return None
        values = [known[value] for value in op.operands]
        if op.name in RETURNS:
            return values
        for k, result in enumerate(op.results):
            number = _number(result) if op.name == CONSTANT else _value(op, values, k)
            known[result] = _random("constant", place) if number is None else number
    return None


def _value(op: ir.Operation, values: list[int], k: int) -> int:
    """Result `k` of an operation of numbers."""
    name, type_ = op.name.removeprefix("stablehlo."), op.results[k].type
    found = _in_field(name, element_kind(element_of(op.results[k]))[0], values)
    if found is not None:
        return found % _PRIME
    said = [str(op.attributes[each]) for each in op.attributes]
    if name == "compare":
        name = direction_of(op)
        said = []
        if name in _TURNED:
            name, values = _TURNED[name], values[::-1]
        if name in ("EQ", "NE"):  # with itself: whether it is a number, as its negative is
            values = [min(values[0], -values[0] % _PRIME)] if len(set(values)) == 1 else values
            values = sorted(values)
    if name == "abs":
        values = [min(values[0], -values[0] % _PRIME)]
    if name in _EITHER_WAY:
        values = sorted(values)
    return _random(name, said, str(type_), values, k)


def _in_field(name: str, kind: str, values: Sequence[int]) -> int | None:
    """A sum, product or quotient; None of what is none, and of truth values."""
    if kind == "bool":
        return None
    match name, values:
        case "add", [a, b]:
            return a + b
        case "subtract", [a, b]:
            return a - b
        case "multiply", [a, b]:
            return a * b
        case "negate", [a]:
            return -a
        case "divide", [a, b] if kind in (*INEXACT, "other") and b:
            return a * pow(b, -1, _PRIME)
    return None
